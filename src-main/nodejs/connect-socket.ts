import { connect, type Socket } from 'node:net';
import { CoveyError } from '#shared/errors.ts';

/** A connection to a unix socket or named pipe of this machine. Rejects with `controller_unreachable`, or the signal's reason. */
export function connectSocket(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    const onAbort = (): void => {
      socket.destroy();
      reject(CoveyError.from(signal.reason));
    };
    const settle = (): void => signal.removeEventListener('abort', onAbort);
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('connect', () => {
      settle();
      resolve(socket);
    });
    socket.once('error', (error) => {
      settle();
      reject(new CoveyError('controller_unreachable', `the controller does not answer: ${error.message}`));
    });
  });
}
