import fc from 'fast-check';
import { expect, test } from 'vitest';
import { attemptLimits, createAttemptLimits } from './attempt-limits.ts';

const { windowMs, failuresPerAddress, addresses } = attemptLimits;

test('ten failures within a minute make an address wait until the first is a minute old', () => {
  const limits = createAttemptLimits();
  for (let index = 0; index < failuresPerAddress; index += 1) {
    expect(limits.waitMs('192.0.2.1', 1_000 + index)).toBe(0);
    limits.failed('192.0.2.1', 1_000 + index);
  }
  expect(limits.waitMs('192.0.2.1', 2_000)).toBe(windowMs - 1_000);
  expect(limits.waitMs('192.0.2.2', 2_000)).toBe(0);
  expect(limits.waitMs('192.0.2.1', 1_000 + windowMs)).toBe(0);
});

test('addresses of one IPv6 network count as one', () => {
  const limits = createAttemptLimits();
  for (let index = 0; index < failuresPerAddress; index += 1) limits.failed(`2001:db8::${index}`, 0);
  expect(limits.waitMs('2001:db8::ffff', 1)).toBeGreaterThan(0);
  expect(limits.waitMs('2001:db8:0:1::1', 1)).toBe(0);
});

test('a clock that is set back locks nobody out', () => {
  const limits = createAttemptLimits();
  for (let index = 0; index < failuresPerAddress; index += 1) limits.failed('192.0.2.1', 1e12);
  expect(limits.waitMs('192.0.2.1', 1_000)).toBe(0);
});

test('challenges that were given back can be taken again', () => {
  const limits = createAttemptLimits();
  const taken = Array.from({ length: attemptLimits.challenges }, () => limits.takeChallenge(0));
  expect(taken.every(({ waitMs }) => waitMs === 0)).toBe(true);
  expect(limits.takeChallenge(10).waitMs).toBe(windowMs - 10);
  taken[0]?.giveBack();
  taken[0]?.giveBack();
  expect(limits.takeChallenge(10).waitMs).toBe(0);
  expect(limits.takeChallenge(10).waitMs).toBeGreaterThan(0);
});

test('never waits longer than the window, and what it remembers is bounded', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 200_000 })), { maxLength: 100 }),
      (failures) => {
        const limits = createAttemptLimits();
        for (const [host, at] of failures) {
          const waitMs = limits.waitMs(`192.0.2.${host}`, at);
          expect(waitMs).toBeGreaterThanOrEqual(0);
          expect(waitMs).toBeLessThanOrEqual(windowMs);
          limits.failed(`192.0.2.${host}`, at);
        }
      },
    ),
  );
  const limits = createAttemptLimits();
  for (let index = 0; index < failuresPerAddress; index += 1) limits.failed('192.0.2.1', 0);
  for (let host = 0; host < addresses; host += 1) limits.failed(`10.0.${host >> 8}.${host & 255}`, 0);
  // The one that was quiet longest is forgotten, the newest are not.
  expect(limits.waitMs('192.0.2.1', 1)).toBe(0);
});
