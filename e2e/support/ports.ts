import { createServer, connect } from 'node:net';

/** A loopback port that was free a moment ago. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, host, () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}

/** Whether something accepts a TCP connection there within the time. */
export async function isListening(port: number, host = '127.0.0.1', timeoutMs = 1_000): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ port, host });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(timeoutMs, () => end(false));
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}
