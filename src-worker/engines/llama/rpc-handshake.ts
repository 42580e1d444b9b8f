import { connect } from 'node:net';

/**
 * The first exchange of ggml's RPC protocol (`ggml/src/ggml-rpc/ggml-rpc.cpp`, "HELLO"), little-endian:
 *
 *   request:  u8 command = 14 | u64 size = 24 | 24 bytes of transport capabilities
 *   response: u64 size = 28   | u8 major, minor, patch, padding | 24 bytes of transport capabilities
 *
 * All capabilities zero asks for plain TCP. The server serves one client at a time, so the connection must be
 * closed before the real client comes.
 */
const helloCommand = 14;
const capabilityBytes = 24;
const responseBytes = 8 + 4 + capabilityBytes;

export function encodeHello(): Buffer {
  const request = Buffer.alloc(1 + 8 + capabilityBytes);
  request.writeUInt8(helloCommand, 0);
  request.writeBigUInt64LE(BigInt(capabilityBytes), 1);
  return request;
}

/** The version a server answered with, `major.minor.patch`; null when this is no such answer. */
export function decodeHello(response: Uint8Array): string | null {
  if (response.byteLength !== responseBytes) return null;
  const view = Buffer.from(response.buffer, response.byteOffset, response.byteLength);
  if (view.readBigUInt64LE(0) !== BigInt(4 + capabilityBytes)) return null;
  return `${view.readUInt8(8)}.${view.readUInt8(9)}.${view.readUInt8(10)}`;
}

/**
 * Greets the server on a loopback port and says goodbye. Rejects with a plain Error when nobody listens, when
 * what answers is not an RPC server, or after `timeoutMs`.
 */
export function rpcHello(port: number, timeoutMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port });
    const chunks: Buffer[] = [];
    let received = 0;
    const timer = setTimeout(
      () => finish(new Error(`no answer to the RPC greeting in ${timeoutMs} ms`)),
      timeoutMs,
    );
    const finish = (outcome: Error | string): void => {
      clearTimeout(timer);
      socket.destroy();
      if (typeof outcome === 'string') resolve(outcome);
      else reject(outcome);
    };
    socket.on('error', finish);
    socket.on('close', () => finish(new Error('the connection closed during the RPC greeting')));
    socket.on('connect', () => socket.write(encodeHello()));
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      received += chunk.byteLength;
      if (received < responseBytes) return;
      finish(
        decodeHello(Buffer.concat(chunks)) ?? new Error('what answered does not speak the RPC protocol'),
      );
    });
  });
}

/**
 * Whether a client of version `ours` can talk to a server of version `theirs`, as the client itself decides:
 * the same major, and the server's minor not newer.
 */
export function rpcCompatible(ours: string, theirs: string): boolean {
  const [ourMajor, ourMinor = 0] = ours.split('.').map(Number);
  const [theirMajor, theirMinor = 0] = theirs.split('.').map(Number);
  return ourMajor === theirMajor && theirMinor <= ourMinor;
}
