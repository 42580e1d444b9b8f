import type { Duplex } from 'node:stream';
import { probeLimits, probeOps } from './probe-protocol.ts';

/** Answers that may wait to be read. */
const maxUnread = 4_096;

/**
 * The measured side of a probe, after the preamble. Commands of the other side, one after the other:
 *
 *   0x01                   answered with 0x01: a round trip
 *   0x02 u32 length, data  one block upwards, answered with 0x02 once it is here
 *   0x03 u32 length        asks for so many bytes downwards; nothing may follow it
 *
 * Ends the stream at anything else, when more than probeLimits.bytes went one way, and after probeLimits.ms.
 */
export function answerProbe(stream: Duplex, onEnd: () => void): void {
  /** Of the block that is on its way. */
  let blockBytes = 0;
  let totalBytes = 0;
  let header = Buffer.alloc(0);
  let sending = false;

  const timer = setTimeout(() => stream.destroy(), probeLimits.ms);
  stream.once('close', () => {
    clearTimeout(timer);
    onEnd();
  });
  stream.on('error', () => stream.destroy());
  stream.once('end', () => stream.destroy());

  const send = (bytes: number): void => {
    sending = true;
    const chunk = Buffer.alloc(64 * 1024);
    let left = Math.min(bytes, probeLimits.bytes);
    const more = (): void => {
      while (left > 0) {
        const part = left >= chunk.length ? chunk : chunk.subarray(0, left);
        left -= part.length;
        if (!stream.write(part)) {
          stream.once('drain', more);
          return;
        }
      }
    };
    more();
  };

  /** What of `chunk` was not used; null: the end. */
  const take = (chunk: Buffer): Buffer | null => {
    if (sending || stream.writableLength > maxUnread) return null;
    if (blockBytes > 0) {
      const used = Math.min(blockBytes, chunk.length);
      blockBytes -= used;
      totalBytes += used;
      if (totalBytes > probeLimits.bytes) return null;
      if (blockBytes === 0) stream.write(Buffer.of(probeOps.up));
      return chunk.subarray(used);
    }
    const op = header[0] ?? chunk[0];
    if (op === probeOps.ping && header.length === 0) {
      stream.write(Buffer.of(probeOps.ping));
      return chunk.subarray(1);
    }
    if (op !== probeOps.up && op !== probeOps.down) return null;
    const missing = 5 - header.length;
    header = Buffer.concat([header, chunk.subarray(0, missing)]);
    if (header.length === 5) {
      const length = header.readUInt32BE(1);
      header = Buffer.alloc(0);
      if (op === probeOps.down) send(length);
      else if (length === 0) return null;
      else blockBytes = length;
    }
    return chunk.subarray(missing);
  };

  stream.on('data', (chunk: Buffer) => {
    for (let rest: Buffer | null = chunk; rest === null || rest.length > 0;) {
      if (rest === null) {
        stream.destroy();
        return;
      }
      rest = take(rest);
    }
  });
}
