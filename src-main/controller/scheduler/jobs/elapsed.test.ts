import { expect, test } from 'vitest';
import { sinceBy } from './elapsed.ts';

const hour = 3_600_000;

test('without leaps it is what the clock says', () => {
  expect(sinceBy(5_000, [])(2_000)).toBe(3_000);
});

test('a leap forward is no time for what was noted before it', () => {
  // Slept from 1,000 on for an hour, found out at the beat after it.
  const since = sinceBy(hour + 5_000, [{ at: hour + 2_000, ms: hour }]);
  expect(since(500)).toBe(4_500);
  expect(since(hour + 2_500)).toBe(2_500);
});

test('what lies ahead is of before the clock was set back', () => {
  const leaps = [{ at: 10_000, ms: -hour }];
  expect(sinceBy(12_000, leaps)(hour + 9_000)).toBe(3_000);
  expect(sinceBy(12_000, leaps)(11_000)).toBe(1_000);
  // Once it does not lie ahead any more nobody can tell: too late rather than too early.
  expect(sinceBy(hour + 10_000, leaps)(hour + 9_000)).toBe(1_000);
});

test('leaps add up', () => {
  const leaps = [
    { at: hour + 2_000, ms: hour },
    { at: 3 * hour + 5_000, ms: 2 * hour },
  ];
  expect(sinceBy(3 * hour + 6_000, leaps)(1_000)).toBe(5_000);
});
