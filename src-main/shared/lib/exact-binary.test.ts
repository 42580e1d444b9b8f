import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  addExactBinary,
  exactBinaryToNumber,
  exactZero,
  formatExactBinary,
  parseExactBinary,
  type ExactBinary,
} from './exact-binary.ts';

/** A double as it is stored. */
function exactOf(value: number): ExactBinary {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const word = bits.getBigUint64(0);
  const stored = Number((word >> 52n) & 0x7ffn);
  const fraction = word & (2n ** 52n - 1n);
  const magnitude = stored === 0 ? fraction : fraction | (2n ** 52n);
  return { integer: value < 0 ? -magnitude : magnitude, exponent: Math.max(stored, 1) - 1075 };
}

const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
const toNumber = (text: string): number => {
  const parsed = parseExactBinary(text);
  if (parsed === null) throw new Error(text);
  return exactBinaryToNumber(parsed);
};

test('a double written and read again is the same', () => {
  fc.assert(
    fc.property(finite, (value) => {
      const text = formatExactBinary(exactOf(value));
      expect(toNumber(text)).toBe(value === 0 ? 0 : value);
      expect(formatExactBinary(parseExactBinary(text) ?? exactZero)).toBe(text);
    }),
  );
});

test('a sum of two doubles rounds as the processor adds them', () => {
  fc.assert(
    fc.property(finite, finite, (a, b) => {
      expect(exactBinaryToNumber(addExactBinary(exactOf(a), exactOf(b)))).toBe(a + b === 0 ? 0 : a + b);
    }),
    { numRuns: 2_000 },
  );
});

test('sums do not depend on the order', () => {
  fc.assert(
    fc.property(fc.array(finite, { maxLength: 20 }), (values) => {
      const sum = (list: number[]): string =>
        formatExactBinary(list.reduce((total, value) => addExactBinary(total, exactOf(value)), exactZero));
      expect(sum(values)).toBe(sum(values.toReversed()));
    }),
  );
});

test.each([
  ['0', 0],
  ['-5p-3', -0.625],
  ['1p-1074', Number.MIN_VALUE],
  ['1p-1075', 0],
  ['3p-1076', Number.MIN_VALUE],
  ['1fffffffffffffp971', Number.MAX_VALUE],
  ['3fffffffffffffp970', Infinity],
  ['-1p1024', -Infinity],
  ['20000000000001p0', 2 ** 53],
  ['20000000000003p0', 2 ** 53 + 4],
  ['200000000000010000001p-28', 2 ** 53 + 2],
])('%s is nearest to %d', (text, value) => expect(toNumber(text)).toBe(value));

test.each([
  '',
  '-',
  'p',
  '1',
  '2p0',
  '01p0',
  '1p',
  '1p+2',
  '-0',
  '0p0',
  'Ap0',
  '1p99999',
  `${'1'.repeat(999)}p0`,
])('%j is refused', (text) => expect(parseExactBinary(text)).toBeNull());
