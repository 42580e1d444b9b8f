import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { ChunkedFraming, FramingError } from './chunked-framing.ts';

const limit = 1024 * 1024;

/** Feeds `text` cut at the given places; returns the data and the longest prefix that was called complete. */
function follow(
  text: string,
  cuts: readonly number[] = [],
): { data: string; complete: string; done: boolean } {
  const bytes = Buffer.from(text, 'latin1');
  const framing = new ChunkedFraming(limit);
  let data = '';
  let complete = 0;
  const edges = [0, ...cuts, bytes.length];
  for (let index = 1; index < edges.length; index++) {
    const from = edges[index - 1] as number;
    const to = edges[index] as number;
    const boundary = framing.advance(
      bytes,
      from,
      to,
      (start, end) => (data += bytes.toString('latin1', start, end)),
    );
    if (boundary > from) complete = boundary;
  }
  return { data, complete: text.slice(0, complete), done: framing.done };
}

const body = '5\r\nhello\r\n1A;name=value\r\nabcdefghijklmnopqrstuvwxyz\r\n1\r\n\n\r\n';
const last = '0\r\nTrailer: x\r\n\r\n';

describe('ChunkedFraming', () => {
  it('finds data, boundary and end, cut at any two places', () => {
    const text = body + last;
    for (let first = 0; first <= text.length; first++) {
      for (let second = first; second <= text.length; second += 3) {
        expect(follow(text, [first, second])).toEqual({
          data: 'helloabcdefghijklmnopqrstuvwxyz\n',
          complete: body,
          done: true,
        });
      }
    }
  });

  it('is not done before the last byte', () => {
    const text = body + last;
    for (let end = 0; end < text.length; end++) expect(follow(text.slice(0, end)).done).toBe(false);
  });

  it('follows what any encoder makes of any data, cut anywhere', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ minLength: 1, maxLength: 80 }), { maxLength: 12 }),
        fc.array(fc.nat(2_000), { maxLength: 10 }),
        fc.boolean(),
        (pieces, places, upper) => {
          const texts = pieces.map((piece) => Buffer.from(piece).toString('latin1'));
          const size = (text: string): string => {
            const hex = text.length.toString(16);
            return upper ? `0${hex.toUpperCase()}` : hex;
          };
          const chunks = texts.map((text) => `${size(text)}\r\n${text}\r\n`).join('');
          const all = `${chunks}0\r\n\r\n`;
          const cuts = places.filter((place) => place <= all.length).sort((a, b) => a - b);
          expect(follow(all, cuts)).toEqual({ data: texts.join(''), complete: chunks, done: true });
        },
      ),
      { numRuns: 500 },
    );
  });

  it('never throws anything but FramingError, whatever comes', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...'0123456789abcdefxyz\r\n; \0')), (letters) => {
        try {
          follow(letters.join(''));
        } catch (error) {
          expect(error).toBeInstanceOf(FramingError);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ['no size', '\r\n'],
    ['a sign', '-1\r\n'],
    ['0x', '0x5\r\nhello\r\n'],
    ['a bare line feed', '5\nhello\r\n'],
    ['a size that does not fit', '5\r\nhello!\r\n'],
    ['data cut short', '5\r\nhell\r\n'],
    ['a huge size', 'ffffffffffff\r\n'],
    ['endless zeros', '0'.repeat(40)],
    ['an endless extension', `1;${'x'.repeat(2_000)}`],
    ['endless trailers', `0\r\n${'a: b\r\n'.repeat(3_000)}`],
    ['a carriage return within the size', '5\rhello'],
  ])('refuses %s', (_name, text) => {
    expect(() => follow(text)).toThrow(FramingError);
  });

  it('ignores what follows the end', () => {
    expect(follow('1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK')).toEqual({
      data: 'a',
      complete: '1\r\na\r\n',
      done: true,
    });
  });
});
