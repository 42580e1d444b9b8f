import { expect, test } from 'vitest';
import type { ComputeFacts } from '#shared/domain/task.ts';
import { apply } from '../../state/apply.ts';
import { connected, GiB, joined, nodeId } from '../../state/fixtures.ts';
import { definition, jobId } from '../../state/job-fixtures.ts';
import type { JobDefinition, NodeDistribution } from '../../state/job-state.ts';
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
): string | null {
  const state = [
    joined('a', 'alpha'),
    connected('a', facts ? { compute: facts } : {}),
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

test('what is missing is said', () => {
  expect(why({}, null)).toBe('runs a version that knows no jobs');
  expect(why({ place: { ...place, nodes: [nodeId('b')] } })).toContain('not among the machines');
  expect(why({ place: { ...place, os: 'darwin' } })).toBe('runs linux, not darwin');
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
