import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { TaskReport } from '#shared/domain/task.ts';
import { id } from '../agent/tasks/fixtures.ts';
import { createReportOutbox } from './report-outbox.ts';

const done = (index: number, output = ''): TaskReport => ({
  type: 'done',
  taskId: id(index),
  epoch: 1,
  result: { value: null, artifacts: [] },
  usage: { wallMs: 0, cpuMs: null, peakBytes: null, stagingMs: 0 },
  output,
});
const progress = (index: number, fraction: number): TaskReport => ({
  type: 'progress',
  taskId: id(index),
  epoch: 1,
  fraction,
});

it('bundles what comes in one turn, within the size of a frame', async () => {
  const frames: (readonly TaskReport[])[] = [];
  const outbox = createReportOutbox((reports) => frames.push(reports));
  for (let index = 0; index < 100; index += 1) outbox.push([done(index)]);
  await turn();
  expect(frames.map(({ length }) => length)).toEqual([100]);
  outbox.push(Array.from({ length: 2_000 }, (_value, index) => done(index)));
  await turn();
  expect(frames.slice(1).reduce((sum, { length }) => sum + length, 0)).toBe(2_000);
  outbox.push(Array.from({ length: 40 }, (_value, index) => done(index, '\u0001€'.repeat(32_000))));
  await turn();
  for (const frame of frames) {
    expect(frame.length).toBeLessThanOrEqual(1_024);
    expect(Buffer.byteLength(JSON.stringify(frame))).toBeLessThan(1024 * 1024);
  }
});

it('tells the newest progress now and then, and none after the end', async () => {
  const frames: (readonly TaskReport[])[] = [];
  const outbox = createReportOutbox((reports) => frames.push(reports));
  outbox.push([progress(0, 0.1)]);
  await turn();
  outbox.push([progress(0, 0.2), progress(0, 0.3), progress(1, 0.5)]);
  outbox.push([done(1)]);
  await turn();
  expect(frames.flat().map(({ type }) => type)).toEqual(['progress', 'done']);
  await delay(400);
  expect(frames.flat().at(-1)).toEqual(progress(0, 0.3));
  expect(frames.flat()).toHaveLength(3);
});

it('forgets what waits when the session ends', async () => {
  const frames: (readonly TaskReport[])[] = [];
  const outbox = createReportOutbox((reports) => frames.push(reports));
  outbox.push([done(0)]);
  outbox.clear();
  await turn();
  expect(frames).toEqual([]);
});
