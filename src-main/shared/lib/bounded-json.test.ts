import { expect, test } from 'vitest';
import { isBoundedJson } from './bounded-json.ts';

const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));

test.each([null, 'x', 1.5, true, [], {}, [{ a: [null, { b: 'c' }] }]])('%j is', (value) =>
  expect(isBoundedJson(value, 4)).toBe(true),
);

test.each([undefined, NaN, Infinity, 1n, new Date(0), new Map(), [undefined], { a: () => 1 }])(
  '%s is not',
  (value) => expect(isBoundedJson(value, 4)).toBe(false),
);

test('counts levels, and comes back from any depth', () => {
  expect(isBoundedJson(nested(4), 4)).toBe(true);
  expect(isBoundedJson(nested(5), 4)).toBe(false);
  expect(isBoundedJson(nested(100_000), 32)).toBe(false);
});
