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

test('a note stays, and the line goes on below it', () => {
  const io = scriptedIo({ errIsTty: true });
  const live = createLiveLine(io);
  live.update('job: queued', '');
  live.note('It waits.');
  live.update('job: queued', '');
  live.end();
  const lines = io.stderr().split('\r\u001b[K').filter(Boolean);
  expect(lines).toEqual(['job: queued', 'It waits.\n', 'job: queued']);
});

test('a job of which nothing has begun has no bar, and at 0 % no time left', () => {
  const parts = exampleJob().partitions;
  const units = { unit: 'items', total: 9_000, done: 0 } as const;
  const waiting = exampleJob({ name: 'nh', status: 'queued', shares: [], units, remainingMs: 600_000 });
  const text = (running: number, done: number): string =>
    progressText({
      ...waiting,
      partitions: { ...parts, running },
      units: { ...units, done },
    }).join(' ');
  expect(text(0, 0)).toBe('nh: queued ');
  expect(text(2, 0)).toBe('nh: queued [--------------------] 0%');
  expect(text(2, 80)).toBe('nh: queued [--------------------] 0%');
  expect(text(2, 4_500)).toBe('nh: queued [##########----------] 50%, about 10 min left');
});
