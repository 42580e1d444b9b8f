import { expect, test } from 'vitest';
import type { LendState } from '#shared/domain/lend.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import { taskId } from '#shared/lib/ids.ts';
import { apply } from '../../state/apply.ts';
import type { ControllerEvent } from '../../state/events.ts';
import { connected, GiB, joined, nodeId } from '../../state/fixtures.ts';
import { definition, jobId } from '../../state/job-fixtures.ts';
import type { JobDefinition, NodeDistribution } from '../../state/job-state.ts';
import { tallied } from '../../state/job-tally.ts';
import { emptyState } from '../../state/state.ts';
import { slotsFor, whyNot } from './fit.ts';

const compute: ComputeFacts = {
  kernels: { isa: 'avx2', kernels: ['sum'] },
  commands: { allowed: false, sandbox: 'none', limits: 'none', network: false },
  cpus: 4,
  memoryBytes: 4 * GiB,
  problems: ['commands are off in its settings'],
};
const auto: NodeDistribution = { mode: 'auto' };

function why(
  overrides: Partial<JobDefinition> = {},
  facts: ComputeFacts | null = compute,
  distribution: NodeDistribution = auto,
  lend: LendState | null = null,
): string | null {
  const state = [
    joined('a', 'alpha'),
    connected('a', { ...(lend ? { lend } : {}), ...(facts ? { compute: facts } : {}) }),
    { type: 'job-submitted', at: 0, definition: definition(overrides), distribution } as const,
  ].reduce(apply, emptyState(0));
  const job = state.jobs.get(jobId);
  const node = state.nodes.get(nodeId('a'));
  if (!job || !node) throw new Error('not there');
  return whyNot(job, node);
}

const place = definition().place;

test('a machine that has all that a job asks for may work, with an engine or without', () => {
  expect(why()).toBeNull();
  expect(
    why({ place: { ...place, os: 'linux', arch: 'x64', kernel: 'sum', nodes: [nodeId('a')] } }),
  ).toBeNull();
});

test('a machine whose owner lets no models run on it does other work', () => {
  const lend = { lending: true, since: 0, noModels: true, heldBackBy: [], unavailable: [] };
  expect(why({}, compute, auto, lend)).toBeNull();
  expect(why({ kind: 'inference' }, compute, auto)).toBeNull();
  expect(why({ kind: 'inference' }, compute, auto, lend)).toBe('lets no models run on it');
});

test('what is missing is said', () => {
  expect(why({}, null)).toBe('runs a version that knows no jobs');
  expect(why({ place: { ...place, nodes: [nodeId('b')] } })).toContain('not among the machines');
  expect(why({ place: { ...place, os: 'darwin' } })).toBe('runs Linux, not macOS');
  expect(why({ place: { ...place, arch: 'arm64' } })).toBe('is x64, not arm64');
  expect(why({ place: { ...place, kernel: 'xor' } })).toBe('does not have the kernel xor');
  expect(why({ place: { ...place, commands: true } })).toBe(
    'does not allow commands (commands are off in its settings)',
  );
  expect(why({ demand: { cpus: 8, memoryBytes: 0, wholeNode: false } })).toBe(
    'lends 4 processors, a partition needs 8',
  );
  expect(why({ demand: { cpus: 1, memoryBytes: 8 * GiB, wholeNode: false } })).toBe(
    'lends 4096 MiB of memory, a partition needs 8192 MiB',
  );
  expect(why({}, compute, { mode: 'manual', shares: [{ nodeId: nodeId('b'), weight: 1 }] })).toBe(
    'has no share of this job',
  );
});

test('slots are counted by processors and by memory', () => {
  const slots = (cpus: number, memoryBytes: number, wholeNode = false) =>
    slotsFor(definition({ demand: { cpus, memoryBytes, wholeNode } }), compute, compute);
  expect(slots(1, 0)).toBe(4);
  expect(slots(0.1, 0)).toBe(40);
  expect(slots(1, 2 * GiB)).toBe(2);
  expect(slots(1, 0, true)).toBe(1);
});

test('a refusal holds until its machine says anew what it does for others', () => {
  const refused: ControllerEvent = {
    type: 'tasks-reported',
    at: 5,
    nodeId: nodeId('a'),
    reports: [
      {
        ...{ type: 'failed', taskId: taskId(jobId, 0, 1), epoch: 1, outcome: 'refused' },
        ...{
          error: { code: 'commands_forbidden', message: 'not here.' },
          exitCode: null,
          usage: null,
          output: '',
        },
      },
    ],
  };
  const assignment = {
    jobId,
    index: 0,
    epoch: 1,
    attempt: 1,
    taskId: taskId(jobId, 0, 1),
    nodeId: nodeId('a'),
  };
  const before = [
    joined('a', 'alpha'),
    connected('a', { at: 1, compute }),
    { type: 'job-submitted', at: 2, definition: definition(), distribution: auto } as const,
    {
      type: 'tasks-assigned',
      at: 3,
      assignments: [{ ...assignment, range: { from: 0, to: 10 }, owner: null, speculative: false }],
    } as const,
    refused,
  ];
  const why = (...events: ControllerEvent[]): string | null => {
    const state = [...before, ...events].reduce(apply, emptyState(0));
    const job = state.jobs.get(jobId);
    const node = state.nodes.get(nodeId('a'));
    if (!job || !node) throw new Error('not there');
    const { definition: defined, course, preparation, partitions } = job;
    // Counted anew, as after a restart, it is the same.
    expect(whyNot(tallied({ definition: defined, course, preparation, partitions }), node)).toBe(
      whyNot(job, node),
    );
    return whyNot(job, node);
  };
  expect(why()).toBe('refused it: not here');
  expect(why({ type: 'compute-observed', at: 6, nodeId: nodeId('a'), compute })).toBeNull();
  expect(why(connected('a', { at: 6, compute, session: 2 }))).toBeNull();
});

test('a network that is set but not there is named', () => {
  const commands = { ...compute.commands, allowed: true };
  const withNetwork = (change: object) =>
    why({ place: { ...place, network: true } }, { ...compute, commands: { ...commands, ...change } });
  expect(withNetwork({ network: true })).toBeNull();
  expect(withNetwork({})).toBe('does not let commands see its network');
  expect(withNetwork({ networkProblem: 'has no network interface vpn0 with an address now' })).toBe(
    'has no network interface vpn0 with an address now',
  );
});
