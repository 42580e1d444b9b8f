import { expect, test } from 'vitest';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { JobId } from '#shared/lib/ids.ts';
import { apply } from '../../state/apply.ts';
import type { ControllerEvent } from '../../state/events.ts';
import { connected, GiB, joined, nodeId } from '../../state/fixtures.ts';
import type { Assignment } from '../../state/job-events.ts';
import { commandWork, definition, indexWork } from '../../state/job-fixtures.ts';
import { openJobs } from '../../state/job-selectors.ts';
import type { JobDefinition, NodeDistribution } from '../../state/job-state.ts';
import { emptyState, type ControllerState } from '../../state/state.ts';
import { dispatch } from './dispatch.ts';
import { sinceBy } from './elapsed.ts';
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
  const first = dispatch(
    openJobs(state.jobs),
    roomsOf(state, openJobs(state.jobs)),
    sinceBy(0, []),
    defaultJobPolicy,
  );
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
  return dispatch(jobs, roomsOf(state, jobs), sinceBy(2, []), defaultJobPolicy).map(
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

const shortOnes = submitted({
  id: 'j-0000000a' as JobId,
  kind: 'command',
  work: commandWork,
  division: { mode: 'counted', count: 1_000, ranged: false },
  total: 1_000,
  unit: 'items',
});
const gang = (overrides: Partial<JobDefinition> = {}): ControllerEvent =>
  submitted({
    id: 'j-0000000c' as JobId,
    kind: 'gang',
    work: commandWork,
    division: { mode: 'counted', count: 2, ranged: false },
    total: 2,
    unit: 'ranks',
    demand: { cpus: 2, memoryBytes: 0, wholeNode: false },
    place: { nodes: null, os: null, arch: null, kernel: null, commands: true, network: false },
    gang: { perNode: 1, restarts: 0 },
    priority: 1,
    ...overrides,
  });

const oneEach: Partial<JobDefinition> = { demand: { cpus: 1, memoryBytes: 0, wholeNode: false } };

function dispatched(state: ControllerState, now: number): Assignment[] {
  const jobs = openJobs(state.jobs);
  return dispatch(jobs, roomsOf(state, jobs), sinceBy(now, []), defaultJobPolicy);
}

/** Short tasks of which more wait at machine `a` than run there. */
function withQueue(): ControllerState {
  let state = [joined('a', 'a'), connected('a', { compute }), shortOnes].reduce(apply, emptyState(0));
  const first = dispatched(state, 0);
  state = apply(state, { type: 'tasks-assigned', at: 0, assignments: first });
  const reports = first.map(({ taskId, epoch }) => ({
    type: 'done' as const,
    taskId,
    epoch,
    result: { value: null, artifacts: [] },
    usage: { wallMs: 20, cpuMs: null, peakBytes: null, stagingMs: 0 },
    output: '',
  }));
  return apply(state, { type: 'tasks-reported', at: 20, nodeId: nodeId('a'), reports });
}

test('what is kept for a job in front is not taken by tasks that would wait there either', () => {
  const state = withQueue();
  const given = dispatched(state, 21);
  expect(given.length).toBeGreaterThan(10);
  const busy = apply(state, { type: 'tasks-assigned', at: 21, assignments: given.slice(0, 2) });
  expect(dispatched(busy, 22).length).toBeGreaterThan(10);
  expect(dispatched(apply(busy, whole(1)), 22)).toEqual([]);
});

test('a gang that has to wait keeps the machines where it may run, and no others', () => {
  const forbidding = { ...compute, commands: { ...compute.commands, allowed: false } };
  const state = withQueue();
  const busy = [
    { type: 'tasks-assigned', at: 21, assignments: dispatched(state, 21).slice(0, 2) } as const,
    ...['b', 'c'].flatMap((name) => [joined(name, name), connected(name, { compute })]),
    joined('d', 'd'),
    connected('d', { compute: forbidding }),
  ].reduce(apply, state);
  const on = (after: ControllerState): string[] => [
    ...new Set(dispatched(after, 22).map(({ jobId, nodeId: id }) => `${jobId.at(-1)} on ${id[0]}`)),
  ];
  expect(on(apply(busy, gang()))).toEqual(expect.arrayContaining(['c on b', 'c on c', 'a on d', 'a on a']));
  const three = gang({ total: 3, division: { mode: 'counted', count: 3, ranged: false } });
  expect(on(apply(busy, three))).toEqual(['a on d']);
  // It would not fit on all of them together: nothing is kept for it.
  const four = gang({ total: 4, division: { mode: 'counted', count: 4, ranged: false } });
  expect(on(apply(busy, four))).toEqual(expect.arrayContaining(['a on a', 'a on b', 'a on c', 'a on d']));
});

test('two gangs that do not fit together are never placed in part', () => {
  const second = gang({ id: 'j-0000000d' as JobId });
  const state = [
    ...['a', 'b'].flatMap((name) => [joined(name, name), connected(name, { compute })]),
    gang(),
    second,
  ].reduce(apply, emptyState(0));
  const given = dispatched(state, 1);
  expect(given.map(({ jobId, index }) => [jobId.at(-1), index])).toEqual([
    ['c', 0],
    ['c', 1],
  ]);
  const running = apply(state, { type: 'tasks-assigned', at: 1, assignments: given });
  expect(dispatched(running, 2)).toEqual([]);
});

test('ranks that do not get ready, for want of ports say, are tried again after longer and longer pauses', () => {
  let state = [
    joined('a', 'a'),
    connected('a', { compute }),
    gang({ ...oneEach, gang: { perNode: null, restarts: 0 } }),
  ].reduce(apply, emptyState(0));
  const pauses: number[] = [];
  let now = 0;
  for (let start = 0; start < 4; start += 1) {
    const before = now;
    let given: Assignment[] = [];
    while (given.length === 0) given = dispatched(state, (now += 50));
    pauses.push(now - before);
    expect(given).toHaveLength(2);
    state = apply(state, { type: 'tasks-assigned', at: now, assignments: given });
    const reports = given.map(({ taskId, epoch }) => ({
      ...{ type: 'failed' as const, taskId, epoch, outcome: 'lost' as const },
      error: { code: 'gang_incomplete', message: 'there are no free ports' } as const,
      ...{ exitCode: null, usage: null, output: '' },
    }));
    state = apply(state, { type: 'tasks-reported', at: now, nodeId: nodeId('a'), reports });
  }
  expect(pauses).toEqual([50, 100, 200, 400]);
});

/** Machines a and b with a processor each; partition 0 of two has failed on a. */
function failedOnA(distribution: NodeDistribution, busy: readonly string[] = []): ControllerState {
  const one = { ...compute, cpus: 1 };
  let state = [
    ...['a', 'b'].flatMap((name) => [joined(name, name), connected(name, { compute: one })]),
    {
      type: 'job-submitted',
      at: 0,
      definition: definition({
        work: commandWork,
        total: 2,
        division: { mode: 'counted', count: 2, ranged: false },
        retry: { attempts: 3, backoffMs: 0, exitCodes: null },
      }),
      distribution,
    } as const,
  ].reduce(apply, emptyState(0));
  const given = dispatched(state, 1);
  state = apply(state, { type: 'tasks-assigned', at: 1, assignments: given });
  for (const { nodeId: on, taskId, epoch } of given) {
    const failed = on === nodeId('a');
    if (!failed && busy.includes('b')) continue;
    const common = {
      taskId,
      epoch,
      output: '',
      usage: { wallMs: 60_000, cpuMs: null, peakBytes: null, stagingMs: 0 },
    };
    state = apply(state, {
      type: 'tasks-reported',
      at: 2,
      nodeId: on,
      reports: [
        failed
          ? {
              ...common,
              type: 'failed',
              outcome: 'crashed',
              error: { code: 'task_crashed', message: 'no' },
              exitCode: null,
            }
          : { ...common, type: 'done', result: { value: null, artifacts: [] } },
      ],
    });
  }
  return state;
}

test('what failed on a machine goes to another that is free', () => {
  expect(dispatched(failedOnA({ mode: 'auto' }), 3).map(({ nodeId: on }) => on[0])).toEqual(['b']);
});

test('what failed on a machine goes there again when no other is free for it', () => {
  expect(dispatched(failedOnA({ mode: 'auto' }, ['b']), 3).map(({ nodeId: on }) => on[0])).toEqual(['a']);
  const shares = ['a', 'b'].map((name) => ({ nodeId: nodeId(name), weight: 1 }));
  const byHand = dispatched(failedOnA({ mode: 'manual', shares }), 3);
  expect(byHand.map(({ nodeId: on }) => on[0])).toEqual(['a']);
});

test('a job in front whose dataset has to be read first gets a machine for that', () => {
  const reads = submitted({
    id: 'j-0000000e' as JobId,
    index: indexWork,
    total: null,
    priority: 1,
    demand: { cpus: 2, memoryBytes: 0, wholeNode: false },
  });
  const state = withQueue();
  const busy = apply(state, {
    type: 'tasks-assigned',
    at: 21,
    assignments: dispatched(state, 21).slice(0, 1),
  });
  expect(dispatched(busy, 22).length).toBeGreaterThan(0);
  // One of two processors is free: what is behind does not take it.
  expect(dispatched(apply(busy, reads), 22)).toEqual([]);
});

test('of many jobs that wait behind full machines none is given anything, and one with work there gets more', () => {
  const waiting = Array.from({ length: 20 }, (_, index) =>
    submitted({
      id: `j-000000${index + 10}` as JobId,
      work: commandWork,
      total: 10,
      division: { mode: 'counted', count: 10, ranged: false },
    }),
  );
  const state = waiting.reduce(apply, withQueue());
  const full = apply(state, {
    type: 'tasks-assigned',
    at: 21,
    assignments: dispatched(state, 21).slice(0, 2),
  });
  const given = dispatched(full, 22);
  expect(given.length).toBeGreaterThan(10);
  expect(new Set(given.map(({ jobId }) => jobId))).toEqual(new Set(['j-0000000a']));
});
