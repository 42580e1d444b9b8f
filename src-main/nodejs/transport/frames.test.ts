import fc from 'fast-check';
import { Duplex, PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { refusalOf } from './fixtures.ts';
import { createFrameDecoder, encodeFrame, readFrame, type FrameProgress } from './frames.ts';

const maxBytes = 8 * 1024;

/** Feeds `bytes` in pieces of the given sizes; the last answer that is not `more`, if any. */
function decodeInPieces(bytes: Buffer, sizes: readonly number[]): FrameProgress {
  const decode = createFrameDecoder(maxBytes);
  let offset = 0;
  for (let index = 0; offset < bytes.length; index += 1) {
    const size = Math.max(1, sizes[index % sizes.length] ?? bytes.length);
    const progress = decode(bytes.subarray(offset, offset + size));
    offset += size;
    if (progress.kind === 'frame') {
      return { ...progress, rest: Buffer.concat([progress.rest, bytes.subarray(offset)]) };
    }
    if (progress.kind === 'error') return progress;
  }
  return { kind: 'more' };
}

describe('createFrameDecoder', () => {
  it('gives back what was encoded, however it arrives, and leaves what follows', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, maxLength: 500, unit: 'binary' }).filter((text) => text.isWellFormed()),
        fc.uint8Array({ maxLength: 100 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
        (text, rest, sizes) => {
          const progress = decodeInPieces(Buffer.concat([encodeFrame(text), rest]), sizes);
          expect(progress).toEqual({ kind: 'frame', json: text, rest: Buffer.from(rest) });
        },
      ),
    );
  });

  it('never throws and never keeps more than a frame, whatever comes', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
        (bytes, sizes) => {
          const progress = decodeInPieces(Buffer.from(bytes), sizes);
          if (bytes.length < 4) expect(progress.kind).toBe('more');
          else {
            const length = Buffer.from(bytes).readUInt32BE(0);
            if (length === 0 || length > maxBytes) expect(progress.kind).toBe('error');
          }
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('judges the length before the body comes', () => {
    const decode = createFrameDecoder(16);
    expect(decode(Buffer.from([0, 0, 0, 17]))).toEqual({
      kind: 'error',
      reason: 'a frame of 17 bytes, allowed are 1 to 16',
    });
  });

  it('refuses what is not UTF-8', () => {
    const progress = createFrameDecoder(16)(Buffer.from([0, 0, 0, 2, 0xc3, 0x28]));
    expect(progress).toMatchObject({ kind: 'error' });
  });
});

describe('readFrame', () => {
  const options = {
    maxBytes: 64,
    timeoutMs: 1_000,
    whatFor: 'a frame',
    closed: () => new CoveyError('not_a_member', 'closed'),
  };

  it('leaves the bytes behind the frame to the next reader', async () => {
    const stream = new PassThrough();
    const reading = readFrame(stream, options);
    stream.write(encodeFrame('{"a":1}').subarray(0, 6));
    stream.write(Buffer.concat([encodeFrame('{"a":1}').subarray(6), Buffer.from('behind')]));
    expect(await reading).toBe('{"a":1}');
    const rest = await new Promise<string>((resolve) => {
      stream.on('data', (chunk: Buffer) => resolve(chunk.toString()));
    });
    expect(rest).toBe('behind');
  });

  it('reports an end, a time out and an abort each as what it is', async () => {
    const ended = new PassThrough();
    ended.end();
    expect((await refusalOf(readFrame(ended, options))).code).toBe('not_a_member');
    const broken = new Duplex({ read: () => undefined });
    setImmediate(() => broken.destroy(new Error('reset')));
    expect((await refusalOf(readFrame(broken, options))).code).toBe('not_a_member');
    const silent = new PassThrough();
    const late = await refusalOf(readFrame(silent, { ...options, timeoutMs: 20 }));
    expect(late.code).toBe('timeout');
    expect(late.message).toContain('a frame');
    const abort = new AbortController();
    const aborted = refusalOf(readFrame(silent, { ...options, signal: abort.signal }));
    abort.abort(new CoveyError('cancelled', 'no more'));
    expect((await aborted).code).toBe('cancelled');
    expect(silent.listenerCount('readable')).toBe(0);
  });
});
