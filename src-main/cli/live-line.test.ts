import { expect, test } from 'vitest';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { exampleJob } from '../../e2e/support/job-views.ts';
import { progressText } from './job-text.ts';
import { createLiveLine } from './live-line.ts';

test('off a terminal a line comes when it has changed, details at most every 10 s', () => {
  let now = 1_000;
  const io = scriptedIo({ now: () => now, errIsTty: false });
  const live = createLiveLine(io);
  for (let second = 0; second < 60; second += 1) {
    live.update('job: queued,', 'waits its turn');
    now += 1_000;
  }
  expect(io.stderr()).toBe('job: queued, waits its turn\n');
  for (let second = 0; second < 20; second += 1) {
    live.update('job: running', `${second} %`);
    now += 1_000;
  }
  expect(io.stderr().split('\n').slice(1, -1)).toEqual(['job: running 0 %', 'job: running 10 %']);
});

test('a job that waits is one short sentence', () => {
  const job = {
    ...exampleJob(),
    ...{ name: 'nh', status: 'preparing' as const, remainingMs: null, shares: [] },
    units: { unit: 'records' as const, total: null, done: 0 },
    partitions: { total: 0, waiting: 0, running: 0, done: 0, failed: 0 },
  };
  const line = (note: string): string => progressText({ ...job, notes: [note] }).join(' ');
  expect(line('It waits its turn behind j-00000001.')).toBe(
    'nh: preparing, waits its turn behind j-00000001',
  );
  expect(
    line(`It waits, no machine can take it now. ${'alpha: is paused; '.repeat(20)}`).length,
  ).toBeLessThanOrEqual(80);
});
