import { expect, test } from 'vitest';
import { taskId, type JobId } from '#shared/lib/ids.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import { apply } from '../../state/apply.ts';
import type { ControllerEvent } from '../../state/events.ts';
import { connected, GiB, joined, nodeId } from '../../state/fixtures.ts';
import { commandWork, definition } from '../../state/job-fixtures.ts';
import { emptyState } from '../../state/state.ts';
import { sinceBy } from './elapsed.ts';
import { defaultJobPolicy } from './job-policy.ts';
import { planJobs } from './plan-jobs.ts';

const idOf = (digit: number) => `j-0000000${digit}` as JobId;
const submitted = (digit: number, count = 10): ControllerEvent => ({
  type: 'job-submitted',
  at: digit,
  definition: definition({
    id: idOf(digit),
    work: commandWork,
    total: count,
    division: { mode: 'counted', count, ranged: false },
  }),
  distribution: { mode: 'auto' },
});
const ended = (digit: number, at: number): ControllerEvent => ({
  type: 'job-cancel-requested',
  at,
  jobId: idOf(digit),
});

/** So many partitions of it are begun, at that time, and those of `done` have results. */
function begun(digit: number, count: number, done: number, at: number): ControllerEvent[] {
  const indexes = Array.from({ length: count }, (_, index) => index);
  const task = (index: number) => taskId(idOf(digit), index, 1);
  return [
    {
      ...{ type: 'tasks-assigned', at },
      assignments: indexes.map((index) => ({
        ...{ jobId: idOf(digit), index, epoch: 1, attempt: 1, taskId: task(index), nodeId: nodeId('a') },
        ...{ range: null, owner: null, speculative: false },
      })),
    },
    {
      ...{ type: 'tasks-reported', at, nodeId: nodeId('a') },
      reports: indexes.map((index) =>
        index < done
          ? {
              ...{ type: 'done', taskId: task(index), epoch: 1, result: { value: null, artifacts: [] } },
              ...{ usage: { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 }, output: '' },
            }
          : {
              ...{ type: 'failed', taskId: task(index), epoch: 1, outcome: 'failed', output: '' },
              ...{ error: { code: 'job_invalid', message: 'never' }, exitCode: 1, usage: null },
            },
      ),
    },
  ];
}
/** All of it is over. */
const collected = (digit: number, at: number, missing = 0): ControllerEvent => ({
  ...{ type: 'result-collected', at, jobId: idOf(digit), result: { value: null, artifacts: [], missing } },
});

/** The jobs that are removed then, in this order. */
function removed(
  events: readonly ControllerEvent[],
  now: number,
  keptJobs = 2,
  keptPartitions = 30,
): number[] {
  const state = events.reduce(apply, emptyState(0));
  const policy = { ...defaultJobPolicy, keptJobs, keptPartitions, keptMs: 1_000 };
  return planJobs(state, { now, since: sinceBy(now, []), policy, giveWayMs: 0, review: true }).flatMap(
    (event) => (event.type === 'job-removed' ? [Number(event.jobId.at(-1))] : []),
  );
}

test('of too many finished jobs those go that ended first, whenever they were submitted', () => {
  const jobs = [1, 2, 3, 4].map((digit) => submitted(digit));
  const ends = [ended(2, 100), ended(3, 200), ended(4, 300)];
  expect(removed([...jobs, ...ends], 5_000)).toEqual([2]);
  expect(removed([...jobs, ...ends, ended(1, 400)], 5_000)).toEqual([2, 3]);
});

test('one that ended a moment ago is left for whoever waits for it', () => {
  const events = [1, 2, 3].map((digit) => submitted(digit));
  const ends = [ended(1, 100), ended(2, 4_500), ended(3, 4_600)];
  expect(removed([...events, ...ends], 5_000, 0)).toEqual([1]);
});

test('what is under way counts for nothing, however large it is', () => {
  const jobs = [submitted(1, 1_000), submitted(2), submitted(3)];
  const over = [...begun(2, 10, 10, 50), collected(2, 100), ...begun(3, 10, 10, 50), collected(3, 200)];
  expect(removed([...jobs, ...over], 5_000)).toEqual([]);
  const more = [...jobs, ...over, submitted(4, 20), ...begun(4, 20, 20, 250), collected(4, 300)];
  expect(removed(more, 5_000, 10)).toEqual([2]);
});

test('what never began pushes out no results, and what has no result goes before what has one', () => {
  const results = [submitted(1), ...begun(1, 10, 10, 10), collected(1, 100)];
  const large = [2, 3, 4].flatMap((digit) => [
    submitted(digit, 1_000),
    ...begun(digit, 5, 5, 150),
    ended(digit, 200 + digit),
  ]);
  expect(removed([...results, ...large], 5_000, 10)).toEqual([]);
  expect(removed([...results, ...large], 5_000, 10, 20)).toEqual([2]);
  const failed = [submitted(5), ...begun(5, 10, 0, 400), collected(5, 500, 10)];
  expect(removed([...results, ...large, ...failed], 5_000, 3)).toEqual([2, 3]);
  expect(removed([...results, ...failed], 5_000, 1)).toEqual([5]);
  // For the number of partitions only what has some.
  const none = [submitted(6), ended(6, 20)];
  expect(removed([...none, ...results, ...failed], 5_000, 10, 10)).toEqual([5]);
});

/** One command that machine a has refused, as it has no such program. */
function refusedBy(...events: readonly ControllerEvent[]): readonly ControllerEvent[] {
  const id = idOf(1);
  return [
    joined('a', 'alpha'),
    connected('a', { compute }),
    ...events,
    submitted(1, 1),
    {
      type: 'tasks-assigned',
      at: 2,
      assignments: [
        {
          ...{ jobId: id, index: 0, epoch: 1, attempt: 1, taskId: taskId(id, 0, 1), nodeId: nodeId('a') },
          ...{ range: null, owner: null, speculative: false },
        },
      ],
    },
    {
      type: 'tasks-reported',
      at: 3,
      nodeId: nodeId('a'),
      reports: [
        {
          ...{ type: 'failed', taskId: taskId(id, 0, 1), epoch: 1, outcome: 'refused' },
          error: {
            code: 'program_not_found',
            message: 'there is no program "x" here (is it one of the inputs?)',
          },
          ...{ exitCode: null, usage: null, output: '' },
        },
      ],
    },
  ];
}
const compute: ComputeFacts = {
  kernels: null,
  commands: { allowed: true, sandbox: 'bubblewrap', limits: 'rlimits', network: false },
  cpus: 4,
  memoryBytes: GiB,
  problems: [],
};
function next(events: readonly ControllerEvent[]): ControllerEvent[] {
  const now = 5_000;
  const input = { now, since: sinceBy(now, []), policy: defaultJobPolicy, giveWayMs: 0, review: true };
  return planJobs(events.reduce(apply, emptyState(0)), input);
}

test('what has no program on one machine goes to another, and fails when no machine has it', () => {
  const other = [joined('b', 'beta'), connected('b', { compute })];
  expect(next(refusedBy(...other))).toMatchObject([
    { type: 'tasks-assigned', assignments: [{ nodeId: nodeId('b') }] },
  ]);
  expect(next(refusedBy())).toEqual([
    {
      type: 'job-failed',
      at: 5_000,
      jobId: idOf(1),
      error: {
        code: 'program_not_found',
        message: 'there is no program "x" on alpha (is it one of the inputs?)',
      },
    },
  ]);
});

test('a job that is asked for again is tried where there was no program', () => {
  const failed = [...refusedBy(), ...next(refusedBy())];
  const again: ControllerEvent = { type: 'job-retry-requested', at: 6_000, jobId: idOf(1) };
  expect(next([...failed, again])).toMatchObject([{ type: 'tasks-assigned' }]);
});
