import type { Duplex } from 'node:stream';
import { CoveyError } from '#shared/errors.ts';

/**
 * The framing of joins and preambles: a 4-byte big-endian length and that many bytes of UTF-8 JSON. What follows
 * a preamble (or its answer) belongs to whoever comes next.
 */
export function encodeFrame(json: string): Buffer {
  const length = Buffer.byteLength(json, 'utf8');
  const frame = Buffer.allocUnsafe(4 + length);
  frame.writeUInt32BE(length, 0);
  frame.write(json, 4, 'utf8');
  return frame;
}

export type FrameProgress =
  | { readonly kind: 'more' }
  | { readonly kind: 'frame'; readonly json: string; readonly rest: Buffer }
  | { readonly kind: 'error'; readonly reason: string };

/** Collects chunks until a frame of at most `maxBytes` is complete. The length is judged before any of it is kept. */
export function createFrameDecoder(maxBytes: number): (chunk: Buffer) => FrameProgress {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  let buffered: Buffer = Buffer.alloc(0);
  return (chunk) => {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    if (buffered.length < 4) return { kind: 'more' };
    const length = buffered.readUInt32BE(0);
    if (length === 0 || length > maxBytes) {
      return { kind: 'error', reason: `a frame of ${length} bytes, allowed are 1 to ${maxBytes}` };
    }
    if (buffered.length < 4 + length) return { kind: 'more' };
    try {
      const json = utf8.decode(buffered.subarray(4, 4 + length));
      return { kind: 'frame', json, rest: buffered.subarray(4 + length) };
    } catch {
      return { kind: 'error', reason: 'a frame that is not UTF-8' };
    }
  };
}

/**
 * Reads one frame and leaves the stream as if nobody had read yet, with what follows still in it. Rejects with
 * a CoveyError: `timeout`, `invalid_request` (too big, not UTF-8), or `closed` when the stream ends before.
 */
export function readFrame(
  socket: Duplex,
  options: {
    readonly maxBytes: number;
    readonly timeoutMs: number;
    readonly whatFor: string;
    readonly closed: () => CoveyError;
    readonly signal?: AbortSignal;
  },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const decode = createFrameDecoder(options.maxBytes);
    const finish = (outcome: () => void): void => {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', onAbort);
      socket.off('readable', onReadable).off('end', onEnd).off('close', onEnd).off('error', onEnd);
      outcome();
    };
    const fail = (error: CoveyError): void => finish(() => reject(error));
    const onReadable = (): void => {
      const chunk = socket.read() as Buffer | null;
      if (!chunk) return;
      const progress = decode(chunk);
      if (progress.kind === 'error') {
        fail(new CoveyError('invalid_request', `The other side sent ${progress.reason}.`));
      } else if (progress.kind === 'frame') {
        finish(() => {
          if (progress.rest.length > 0) socket.unshift(progress.rest);
          resolve(progress.json);
        });
      }
    };
    const onEnd = (): void => fail(options.closed());
    const onAbort = (): void => fail(CoveyError.from(options.signal?.reason));
    const timer = setTimeout(
      () => fail(new CoveyError('timeout', `Waited ${options.timeoutMs} ms for ${options.whatFor}.`)),
      options.timeoutMs,
    );
    if (options.signal?.aborted) return onAbort();
    if (socket.destroyed || socket.readableEnded) return onEnd();
    options.signal?.addEventListener('abort', onAbort, { once: true });
    socket.on('readable', onReadable).on('end', onEnd).on('close', onEnd).on('error', onEnd);
    return undefined;
  });
}

/** How long a peer gets to read the last bytes and close its side. */
const lingerMs = 2_000;
const flushMs = 30_000;

/**
 * Sends `last`, then ends the stream in an orderly way: what is still unread is thrown away until the peer
 * closes, because a close over unread bytes becomes a reset that may overtake the last bytes on their way.
 */
export function endWith(socket: Duplex, last?: Buffer): void {
  if (socket.destroyed) return;
  let timer = setTimeout(() => socket.destroy(), flushMs);
  socket.once('close', () => clearTimeout(timer));
  socket.on('error', () => undefined);
  socket.on('data', () => undefined);
  socket.once('end', () => {
    if (socket.writableFinished) socket.destroy();
  });
  socket.end(last, () => {
    clearTimeout(timer);
    if (socket.readableEnded || socket.destroyed) return void socket.destroy();
    timer = setTimeout(() => socket.destroy(), lingerMs);
    return undefined;
  });
  socket.resume();
}
