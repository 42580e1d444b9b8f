import { expect, test } from 'vitest';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { JobId } from '#shared/lib/ids.ts';
import { apply } from '../../state/apply.ts';
import type { ControllerEvent } from '../../state/events.ts';
import { connected, GiB, joined } from '../../state/fixtures.ts';
import { commandWork, definition } from '../../state/job-fixtures.ts';
import { openJobs } from '../../state/job-selectors.ts';
import type { JobDefinition } from '../../state/job-state.ts';
import { emptyState } from '../../state/state.ts';
import { dispatch } from './dispatch.ts';
import { defaultJobPolicy } from './job-policy.ts';
import { roomsOf } from './room.ts';

const compute: ComputeFacts = {
  kernels: { isa: 'avx2', kernels: ['sum'] },
  commands: { allowed: true, sandbox: 'bubblewrap', limits: 'cgroup2', network: false },
  cpus: 2,
  memoryBytes: 4 * GiB,
  problems: [],
};
const submitted = (overrides: Partial<JobDefinition>): ControllerEvent => ({
  type: 'job-submitted',
  at: 0,
  definition: definition(overrides),
  distribution: { mode: 'auto' },
});
const small = submitted({
  id: 'j-0000000a' as JobId,
  kind: 'command',
  work: commandWork,
  division: { mode: 'counted', count: 10, ranged: false },
  total: 10,
  unit: 'items',
});
const whole = (priority: number): ControllerEvent =>
  submitted({
    id: 'j-0000000b' as JobId,
    priority,
    demand: { cpus: 1, memoryBytes: 0, wholeNode: true },
  });

/** What is given out beside two small tasks that run on the first of these machines, by job and machine. */
function given(nodes: readonly string[], more: readonly ControllerEvent[]): string[] {
  let state = [joined('a', 'a'), connected('a', { compute }), small].reduce(apply, emptyState(0));
  const first = dispatch(openJobs(state.jobs), roomsOf(state, openJobs(state.jobs)), 0, defaultJobPolicy);
  state = apply(state, { type: 'tasks-assigned', at: 0, assignments: first });
  expect(first).toHaveLength(2);
  const [ended] = first;
  if (!ended) throw new Error('nothing was assigned');
  const { jobId, index, epoch, taskId } = ended;
  const error = { code: 'task_failed', message: 'no' } as const;
  state = apply(state, {
    type: 'tasks-ended',
    at: 1,
    ends: [{ jobId, index, epoch, taskId, outcome: 'failed', error, notBeforeAt: 1_000_000 }],
  });
  const events = [
    ...nodes.slice(1).flatMap((name) => [joined(name, name), connected(name, { compute })]),
    ...more,
  ];
  state = events.reduce(apply, state);
  const jobs = openJobs(state.jobs);
  return dispatch(jobs, roomsOf(state, jobs), 2, defaultJobPolicy).map(
    ({ jobId: job, nodeId: node }) => `${job.at(-1)} on ${state.nodes.get(node)?.durable.name}`,
  );
}

test('small tasks take what is free', () => {
  expect(given(['a'], [])).toEqual(['a on a']);
});

test('a job in front that needs a whole machine keeps one that is not free from the jobs behind it', () => {
  expect(given(['a'], [whole(1)])).toEqual([]);
  expect(given(['a', 'b'], [whole(1)])).toEqual(['b on b']);
});

test('a job behind keeps nothing from those in front', () => {
  expect(given(['a'], [whole(0)])).toEqual(['a on a']);
});
