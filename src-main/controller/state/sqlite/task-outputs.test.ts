import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { taskId, type JobId } from '#shared/lib/ids.ts';
import { openDatabase, type Connection } from './database.ts';
import { createTaskOutputs } from './task-outputs.ts';

let directory: string;
let connection: Connection;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-outputs-'));
  connection = openDatabase(join(directory, 'covey.db'));
});
afterEach(() => {
  connection.close();
  rmSync(directory, { recursive: true, force: true });
});

const limits = { jobBytes: 10_000, allBytes: 25_000 };
const task = (job: number, index: number) => taskId(`j-0000000${job}` as JobId, index, 1);
const text = (length: number): string => 'x'.repeat(length - 1) + '!';
const kept = (): number[] =>
  connection
    .prepare<[], { no: number }>('SELECT DISTINCT job_no AS no FROM task_outputs ORDER BY no')
    .all()
    .map(({ no }) => no);

test('of one job so much is kept, then only the last of each', () => {
  const outputs = createTaskOutputs(connection, limits);
  outputs.add(task(1, 0), 1, text(9_000));
  outputs.add(task(1, 1), 1, text(9_000));
  outputs.add(task(1, 2), 1, text(500));
  outputs.add(task(2, 0), 2, text(9_000));
  expect([0, 1, 2].map((index) => outputs.read(task(1, index))?.length)).toEqual([9_000, 1_024, 500]);
  expect(outputs.read(task(1, 1))?.endsWith('!')).toBe(true);
  expect(outputs.read(task(2, 0))).toHaveLength(9_000);
  expect(outputs.read(task(2, 1))).toBeNull();
});

test('of all jobs so much is kept: what the oldest that are over have printed goes', () => {
  const outputs = createTaskOutputs(connection, limits);
  for (const job of [1, 2, 3]) outputs.add(task(job, 0), job, text(9_000));
  expect(outputs.read(task(3, 0))).toHaveLength(7_000);
  const running = new Set([1]);
  outputs.makeRoom((no) => !running.has(no));
  expect(kept()).toEqual([1, 3]);
  outputs.add(task(4, 0), 4, text(9_000));
  expect(outputs.read(task(4, 0))).toHaveLength(9_000);
  // All of them run: nothing is taken from them, and new ones keep little.
  outputs.makeRoom(() => false);
  expect(kept()).toEqual([1, 3, 4]);
  outputs.add(task(5, 0), 5, text(9_000));
  expect(outputs.read(task(5, 0))).toHaveLength(1_024);
});

test('what is kept is known after a restart, after a removal and after a transaction that failed', () => {
  createTaskOutputs(connection, limits).add(task(1, 0), 1, text(9_000));
  const outputs = createTaskOutputs(connection, limits);
  expect(() =>
    connection.transaction(() => {
      outputs.add(task(1, 1), 1, text(1_000));
      throw new Error('disk full');
    })(),
  ).toThrow('disk full');
  outputs.rolledBack();
  outputs.add(task(1, 1), 1, text(1_000));
  outputs.add(task(1, 2), 1, text(2_000));
  expect([1, 2].map((index) => outputs.read(task(1, index))?.length)).toEqual([1_000, 1_024]);
  outputs.dropJob(1);
  expect(kept()).toEqual([]);
  outputs.add(task(1, 3), 1, text(9_000));
  expect(outputs.read(task(1, 3))).toHaveLength(9_000);
});
