import { expect, test } from 'vitest';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { taskId } from '#shared/lib/ids.ts';
import type { TaskReport } from '#shared/domain/task.ts';
import { apply } from './apply.ts';
import type { ControllerEvent } from './events.ts';
import { nodeId } from './fixtures.ts';
import { commandWork, definition, jobId } from './job-fixtures.ts';
import { jobProgress } from './job-progress.ts';
import { partitionOf } from './job-selectors.ts';
import type { JobRecord } from './job-state.ts';
import { emptyState } from './state.ts';

/** Two partitions of commands that are with machine a. */
const begun: readonly ControllerEvent[] = [
  {
    type: 'job-submitted',
    at: 1,
    definition: definition({
      work: commandWork,
      total: 2,
      division: { mode: 'counted', count: 2, ranged: false },
    }),
    distribution: { mode: 'auto' },
  },
  {
    type: 'tasks-assigned',
    at: 2,
    assignments: [0, 1].map((index) => ({
      jobId,
      index,
      epoch: 1,
      attempt: 1,
      taskId: taskId(jobId, index, 1),
      nodeId: nodeId('a'),
      range: null,
      owner: null,
      speculative: false,
    })),
  },
];
const done = (index: number, made: readonly string[] = []): TaskReport => ({
  type: 'done',
  taskId: taskId(jobId, index, 1),
  epoch: 1,
  result: {
    value: null,
    artifacts: made.map((digit) => ({
      id: digit.repeat(64) as ArtifactId,
      kind: 'file',
      bytes: 1,
      name: 'out',
    })),
  },
  usage: { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 },
  output: '',
});
const reported = (...reports: TaskReport[]): ControllerEvent => ({
  type: 'tasks-reported',
  at: 3,
  nodeId: nodeId('a'),
  reports,
});
const retry: ControllerEvent = { type: 'job-retry-requested', at: 9, jobId };

function after(...events: ControllerEvent[]): JobRecord {
  const job = [...begun, ...events].reduce(apply, emptyState(0)).jobs.get(jobId);
  if (!job) throw new Error('no job');
  return job;
}

test('a job whose results could not be put together puts them together again', () => {
  const error = { code: 'disk_full', message: 'no room' } as const;
  const failed = [reported(done(0), done(1)), { type: 'job-failed', at: 5, jobId, error } as const];
  expect(after(...failed).course).toMatchObject({ phase: 'failed', error });
  const { course, partitions } = after(...failed, retry);
  expect(course).toMatchObject({ phase: 'collecting', error: null, finishedAt: null });
  expect(partitions.map(({ attempt }) => attempt)).toEqual([1, 1]);
});

test('a result that was being fetched when the job was cancelled is not made again', () => {
  const cancelled = [
    reported(done(0, ['4'])),
    { type: 'job-cancel-requested', at: 4, jobId } as const,
    reported(done(1, ['5'])),
  ];
  expect(after(...cancelled).partitions.map(({ phase }) => phase)).toEqual(['fetching', 'cancelled']);
  const job = after(...cancelled, retry);
  expect(job.course.phase).toBe('queued');
  expect(job.partitions.map(({ phase }) => phase)).toEqual(['fetching', 'waiting']);
  const fetched: ControllerEvent = {
    type: 'partitions-fetched',
    at: 10,
    partitions: [{ jobId, index: 0, epoch: 1 }],
  };
  const { partitions, tally } = after(...cancelled, retry, fetched);
  expect(partitions[0]?.phase).toBe('done');
  expect(tally).toMatchObject({ doneUnits: 1, counts: { done: 1, waiting: 1 } });
});

test('an output that the controller has no room for fails the job at once, what is done stays', () => {
  const failed = (reason: 'quota' | 'disk'): ControllerEvent =>
    reported(done(0), {
      ...{ type: 'failed', taskId: taskId(jobId, 1, 1), epoch: 1, outcome: 'lost' },
      error: { code: 'disk_full', message: 'no room', reasons: [{ code: reason, message: 'room' }] },
      ...{ exitCode: null, usage: null, output: '' },
    });
  expect(after(failed('disk')).course.phase).toBe('running');
  const { course, partitions } = after(failed('quota'));
  expect(course).toMatchObject({ phase: 'failed', finishedAt: 3, error: { code: 'disk_full' } });
  expect(partitions.map(({ phase }) => phase)).toEqual(['done', 'cancelled']);
  expect(after(failed('quota'), retry).partitions.map(({ phase }) => phase)).toEqual(['done', 'waiting']);
});

test('of a job that has ended what never began is not kept, and is there again when it is asked for', () => {
  const large: ControllerEvent = {
    ...{ type: 'job-submitted', at: 1, distribution: { mode: 'auto' } },
    definition: definition({
      work: commandWork,
      total: 9,
      division: { mode: 'counted', count: 5, ranged: true },
    }),
  };
  const assignment = begun[1] as ControllerEvent;
  const cancel: ControllerEvent = { type: 'job-cancel-requested', at: 4, jobId };
  const events = [large, assignment, reported(done(0), done(1)), cancel];
  const state = events.reduce(apply, emptyState(0));
  const job = state.jobs.get(jobId) as JobRecord;
  expect(job.partitions.map(({ phase }) => phase)).toEqual(['done', 'done']);
  expect(job.tally.rest).toEqual([]);
  expect(jobProgress(job, 9).partitions).toEqual({
    ...{ total: 5, waiting: 0, running: 0, done: 2, failed: 0, cancelled: 3 },
  });
  expect(partitionOf(job, 4)).toMatchObject({ index: 4, range: { from: 8, to: 9 }, attempt: 0 });
  expect(partitionOf(job, 5)).toBeUndefined();
  const again = apply(state, retry).jobs.get(jobId) as JobRecord;
  expect(again.partitions.map(({ phase }) => phase)).toEqual([
    ...['done', 'done', 'waiting', 'waiting', 'waiting'],
  ]);
  expect(again.partitions[4]?.range).toEqual({ from: 8, to: 9 });
  expect(again.tally.rest).toEqual([{ from: 2, to: 5, owner: null }]);
  expect(jobProgress(again, 9).partitions).toMatchObject({ waiting: 3, done: 2, cancelled: 0 });
});

test('what is wrong with what was submitted is not tried again', () => {
  const failed = (code: 'dataset_invalid' | 'task_failed'): ControllerEvent =>
    reported({
      ...{ type: 'failed', taskId: taskId(jobId, 0, 1), epoch: 1, outcome: 'failed' },
      error: { code, message: 'a record is longer than 64 MiB' },
      ...{ exitCode: null, usage: null, output: '' },
    });
  expect(after(failed('task_failed')).partitions[0]?.phase).toBe('waiting');
  const { partitions, course } = after(failed('dataset_invalid'));
  expect(partitions[0]?.phase).toBe('failed');
  expect(course.error?.message).toBe('Partition 0 failed: a record is longer than 64 MiB');
});
