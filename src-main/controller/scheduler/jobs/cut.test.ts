import { expect, test } from 'vitest';
import { cutUnits, type CutInput } from './cut.ts';
import { defaultJobPolicy } from './job-policy.ts';

const cut = (overrides: Partial<CutInput>): number =>
  cutUnits(
    {
      smallest: 1,
      largest: 1_000_000,
      total: 1_000_000,
      remaining: 1_000_000,
      unitsPerS: 1_000,
      allUnitsPerS: 4_000,
      ...overrides,
    },
    defaultJobPolicy,
  );

test('an unknown machine gets a small probe', () => {
  expect(cut({ unitsPerS: null })).toBe(488);
  expect(cut({ unitsPerS: null, total: 100, remaining: 100 })).toBe(1);
});

test('a known one gets four seconds of work, less toward the end, never under a fifth of a second', () => {
  expect(cut({})).toBe(4_000);
  expect(cut({ remaining: 16_000 })).toBe(2_000);
  expect(cut({ remaining: 1_000 })).toBe(200);
  expect(cut({ remaining: 150 })).toBe(150);
});

test('limits of the job hold', () => {
  expect(cut({ largest: 500 })).toBe(500);
  expect(cut({ remaining: 1_000, smallest: 800 })).toBe(800);
  // There are never more than 50,000 partitions.
  expect(cut({ total: 1e9, remaining: 1e9, unitsPerS: 1 })).toBe(20_000);
});
