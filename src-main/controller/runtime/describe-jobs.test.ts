import { expect, test } from 'vitest';
import { taskId } from '#shared/lib/ids.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
import { joined, nodeId } from '../state/fixtures.ts';
import { definition, jobId } from '../state/job-fixtures.ts';
import type { Assignment } from '../state/job-events.ts';
import { emptyState } from '../state/state.ts';
import { describeJobs, isJobEvent } from './describe-jobs.ts';

/** The lines of these events in order, each with its level. */
function lines(...events: ControllerEvent[]): string[] {
  let state = apply(emptyState(0), joined('a', 'alpha'));
  return events.flatMap((event) => {
    const before = state;
    state = apply(state, event);
    return isJobEvent(event)
      ? describeJobs(event, before, state).map(({ level, message }) => `${level} ${message}`)
      : [];
  });
}

const count = 20;
const submitted: ControllerEvent = {
  type: 'job-submitted',
  at: 1,
  definition: definition({
    name: 'count words',
    retry: { attempts: 1, backoffMs: 0, exitCodes: null },
    division: { mode: 'counted', count, ranged: false },
  }),
  distribution: { mode: 'auto' },
};
const assigned: ControllerEvent = {
  type: 'tasks-assigned',
  at: 2,
  assignments: Array.from({ length: count }, (_, index): Assignment => ({
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
};
const failed = (index: number): ControllerEvent => ({
  type: 'tasks-reported',
  at: 3,
  nodeId: nodeId('a'),
  reports: [
    {
      type: 'failed',
      taskId: taskId(jobId, index, 1),
      epoch: 1,
      outcome: 'crashed',
      error: { code: 'task_crashed', message: 'Segmentation fault.' },
      exitCode: null,
      usage: null,
      output: '',
    },
  ],
});

test('a job is heard of when it begins and ends, and of its failures the first few', () => {
  const failures = Array.from({ length: count }, (_, index) => failed(index));
  const result = { value: null, artifacts: [], missing: count };
  expect(lines(submitted, assigned, ...failures, { type: 'result-collected', at: 4, jobId, result })).toEqual(
    [
      'info count words was submitted.',
      'info count words runs.',
      ...[0, 1, 2, 3, 4].map(
        (index) => `warn count words lost partition ${index} for good: Segmentation fault.`,
      ),
      'error count words failed: Partition 0 failed: Segmentation fault.',
    ],
  );
});

test('that a machine runs programs of members, or no more, is said once it is known', () => {
  const compute = (allowed: boolean): ControllerEvent => ({
    type: 'compute-observed',
    at: 1,
    nodeId: nodeId('a'),
    compute: {
      kernels: null,
      commands: { allowed, sandbox: 'bubblewrap', limits: 'rlimits', network: false },
      cpus: 4,
      memoryBytes: 2 ** 30,
      problems: [],
    },
  });
  expect(lines(compute(false), compute(false), compute(true), compute(true), compute(false))).toEqual([
    'info alpha runs programs of members now.',
    'info alpha runs programs of members no more.',
  ]);
});

test('what people ask for is said, with its end', () => {
  expect(
    lines(
      submitted,
      { type: 'distribution-set', at: 2, jobId, distribution: { mode: 'auto' } },
      { type: 'job-cancel-requested', at: 2, jobId },
      { type: 'job-retry-requested', at: 3, jobId },
      { type: 'job-failed', at: 4, jobId, error: { code: 'internal_error', message: 'No space.' } },
      { type: 'job-removed', at: 5, jobId, cause: 'old' },
    ),
  ).toEqual([
    'info count words was submitted.',
    'info count words is divided by speed now.',
    'info count words is to be cancelled.',
    'info count words was cancelled.',
    'info count words is tried again.',
    'error count words failed: No space.',
    'info count words was removed: newer jobs need its place.',
  ]);
});
