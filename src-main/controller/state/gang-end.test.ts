import { expect, test } from 'vitest';
import { taskId } from '#shared/lib/ids.ts';
import type { TaskReport } from '#shared/domain/task.ts';
import { apply } from './apply.ts';
import type { ControllerEvent } from './events.ts';
import { joined, nodeId } from './fixtures.ts';
import { commandWork, definition, jobId } from './job-fixtures.ts';
import type { JobRecord } from './job-state.ts';
import { emptyState } from './state.ts';

const program = commandWork.kind === 'command' ? commandWork.program : null;
if (!program) throw new Error('no program');
const [w1, w2] = [nodeId('a'), nodeId('b')];

/** Rank 0 on w1, rank 1 on w2; both run. */
const running: readonly ControllerEvent[] = [
  joined('a', 'w1'),
  joined('b', 'w2'),
  {
    type: 'job-submitted',
    at: 1,
    definition: definition({
      work: { kind: 'gang', program, outputs: [], ports: 1 },
      total: 2,
      division: { mode: 'counted', count: 2, ranged: false },
      gang: { perNode: 1, restarts: 0 },
    }),
    distribution: { mode: 'auto' },
  },
  {
    type: 'tasks-assigned',
    at: 2,
    assignments: [w1, w2].map((node, index) => ({
      ...{ jobId, index, epoch: 1, attempt: 1, taskId: taskId(jobId, index, 1), nodeId: node },
      ...{ range: null, owner: null, speculative: false },
    })),
  },
];
const went: ControllerEvent = { type: 'gang-started', at: 3, jobId, start: 1 };
const ended = (
  index: number,
  outcome: 'failed' | 'refused' | 'cancelled',
  message: string,
): ControllerEvent => {
  const report: TaskReport = {
    ...{ type: 'failed', taskId: taskId(jobId, index, 1), epoch: 1, outcome },
    error: { code: outcome === 'cancelled' ? 'cancelled' : 'task_failed', message },
    ...{ exitCode: outcome === 'failed' ? 9 : null, usage: null, output: '' },
  };
  return { type: 'tasks-reported', at: 4 + index, nodeId: index === 0 ? w1 : w2, reports: [report] };
};
const died = ended(1, 'failed', 'the program ended with exit code 9');
const cancelled = ended(0, 'cancelled', 'the job was cancelled');

function after(...events: readonly ControllerEvent[]): JobRecord {
  const job = [...running, ...events].reduce(apply, emptyState(0)).jobs.get(jobId);
  if (!job) throw new Error('no job');
  return job;
}

test('the rank that ends a gang is named, with its machine; the others ended with it', () => {
  const { course, partitions, tally } = after(went, died, cancelled);
  expect(course).toMatchObject({
    phase: 'failed',
    error: { message: 'rank 1 on w2: the program ended with exit code 9' },
  });
  expect(partitions.map(({ phase, error }) => [phase, error?.message])).toEqual([
    ['cancelled', 'It ended with the gang.'],
    ['failed', 'the program ended with exit code 9'],
  ]);
  expect(partitions[0]?.tasks[0]).toMatchObject({
    outcome: 'cancelled',
    error: { message: 'It ended with the gang.' },
  });
  expect(tally.counts).toMatchObject({ waiting: 0, active: 0, cancelled: 1, failed: 1 });
});

test('a machine that cannot take a rank is not lost, and the gang tries elsewhere', () => {
  const { course, partitions, tally } = after(ended(1, 'refused', 'there is no such interface'), cancelled);
  expect(course).toMatchObject({ phase: 'running', gang: { incomplete: 1, stopping: null } });
  expect(partitions.map(({ phase }) => phase)).toEqual(['waiting', 'waiting']);
  expect(partitions[1]?.tasks[0]?.outcome).toBe('refused');
  expect(tally.nodes.get(w2)?.refused).toMatchObject({ error: { message: 'there is no such interface' } });
});

test('a person who cancels it is not hidden', () => {
  const cancel: ControllerEvent = { type: 'job-cancel-requested', at: 3, jobId };
  expect(after(went, cancel, cancelled).partitions[0]?.error?.message).toBe('the job was cancelled');
});

test('a gang that has failed can be asked for again, with all its ranks', () => {
  const { course, tally } = after(went, died, cancelled, { type: 'job-retry-requested', at: 9, jobId });
  expect(course).toMatchObject({ phase: 'queued', ending: null, error: null });
  expect(tally.counts).toMatchObject({ waiting: 2, failed: 0, cancelled: 0 });
});
