import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { nodeId } from '../state/fixtures.ts';
import { createContests, type Contests } from './contests.ts';

const a = nodeId('a');
const b = nodeId('b');
let contests: Contests;
let said: string[];
const challenger = (name: string) => ({
  admit: () => void said.push(`${name} admitted`),
  refuse: () => void said.push(`${name} refused`),
});
beforeEach(() => {
  vi.useFakeTimers();
  said = [];
  contests = createContests({ silenceMs: 3_000, confirmMs: 300 });
});
afterEach(() => {
  contests.clear();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('a newcomer', () => {
  test('is admitted at once when the open session ends', () => {
    contests.challenge(a, challenger('new'));
    vi.advanceTimersByTime(50);
    contests.ended(a);
    expect(said).toEqual(['new admitted']);
  });

  test('is admitted when the open session stays silent', () => {
    contests.challenge(a, challenger('new'));
    vi.advanceTimersByTime(2_999);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(said).toEqual(['new admitted']);
  });

  test('is refused when the open session speaks and stays', () => {
    contests.challenge(a, challenger('new'));
    vi.advanceTimersByTime(2_900);
    contests.heard(a);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(300);
    expect(said).toEqual(['new refused']);
  });

  test('is admitted when what the open session said were its last words', () => {
    contests.challenge(a, challenger('new'));
    contests.heard(a);
    vi.advanceTimersByTime(100);
    contests.ended(a);
    expect(said).toEqual(['new admitted']);
  });

  test('that leaves hears nothing more', () => {
    const leave = contests.challenge(a, challenger('new'));
    leave();
    contests.ended(a);
    vi.advanceTimersByTime(10_000);
    expect(said).toEqual([]);
  });

  test('is not concerned by what other nodes do', () => {
    contests.challenge(a, challenger('new'));
    contests.heard(b);
    contests.ended(b);
    vi.advanceTimersByTime(2_000);
    expect(said).toEqual([]);
  });
});

test('of several, the first takes the place and the others wait for it', () => {
  contests.challenge(a, challenger('first'));
  vi.advanceTimersByTime(2_000);
  contests.challenge(a, challenger('second'));
  contests.ended(a);
  expect(said).toEqual(['first admitted']);
  vi.advanceTimersByTime(2_900);
  contests.heard(a);
  vi.advanceTimersByTime(300);
  expect(said).toEqual(['first admitted', 'second refused']);
});
