import { Buffer } from 'node:buffer';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** What a connection tells its owner; nothing more after `onClose` or `destroy`. */
export interface ConnectionOwner {
  /** The connection stands. */
  onOpen(): void;
  /**
   * Bytes from the peer: `bytes[0, length)`, valid during the call only.
   * @returns true when the memory is kept, which then is not used again
   */
  onBytes(bytes: Buffer, length: number): boolean;
  /** Once, when the peer has closed or the connection broke. */
  onClose(error: Error | null): void;
}

/** A byte stream to one peer for one exchange. */
export interface UpstreamConnection {
  /** Sends the request. Once. The write side stays open: engines take a half-close for a client that left. */
  send(pieces: readonly Buffer[]): void;
  pause(): void;
  resume(): void;
  /** Ends it now, both ways; silent. */
  destroy(): void;
}

/** One answer's bytes arrive in writes of a few hundred bytes; more than this at once only in big bodies. */
const readBufferBytes = 16_384;

/**
 * A TCP connection whose reads all land in one buffer: no allocation and no stream bookkeeping per token, which
 * is where most of a plain pipe's time goes.
 * @param connectMs the deadline for the connection itself
 */
export function connectLoopback(port: number, connectMs: number, owner: ConnectionOwner): UpstreamConnection {
  let buffer: Buffer | null = null;
  let over = false;
  const socket = connect({
    host: '127.0.0.1',
    port,
    noDelay: true,
    onread: {
      buffer: () => (buffer ??= Buffer.allocUnsafeSlow(readBufferBytes)),
      callback(length, bytes) {
        if (!over && owner.onBytes(bytes as Buffer, length)) buffer = null;
        return true;
      },
    },
  });
  const timer = setTimeout(
    () => socket.destroy(new Error(`no connection within ${connectMs} ms`)),
    connectMs,
  );
  socket.on('connect', () => {
    clearTimeout(timer);
    owner.onOpen();
  });
  const finish = (error: Error | null): void => {
    clearTimeout(timer);
    if (over) return;
    over = true;
    owner.onClose(error);
    socket.destroy();
  };
  socket.on('error', finish);
  socket.on('end', () => finish(null));
  socket.on('close', () => finish(null));
  return {
    send: (pieces) => writeAll(socket, pieces),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    destroy() {
      over = true;
      clearTimeout(timer);
      socket.destroy();
    },
  };
}

/** A connection that is open already, for example a tunnel to another machine. */
export function adoptStream(stream: Duplex, owner: ConnectionOwner): UpstreamConnection {
  let over = false;
  const finish = (error: Error | null): void => {
    if (over) return;
    over = true;
    owner.onClose(error);
    stream.destroy();
  };
  owner.onOpen();
  stream.on('data', (bytes: Buffer) => {
    if (!over) owner.onBytes(bytes, bytes.length);
  });
  stream.on('error', finish);
  stream.on('end', () => finish(null));
  stream.on('close', () => finish(null));
  // Whoever opened it may have paused it.
  stream.resume();
  return {
    send: (pieces) => writeAll(stream, pieces),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    destroy() {
      over = true;
      stream.destroy();
    },
  };
}

function writeAll(stream: Duplex, pieces: readonly Buffer[]): void {
  stream.cork();
  for (const piece of pieces) stream.write(piece);
  stream.uncork();
}
