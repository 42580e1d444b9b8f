import { describe, expect, it } from 'vitest';
import { lendRulesSchema } from '#shared/domain/lend.ts';
import { computeFacts, taskRules, type ComputeProbe } from './compute-facts.ts';

const probe: ComputeProbe = {
  sandbox: { kind: 'bubblewrap', path: '/usr/bin/bwrap' },
  sandboxProblem: null,
  limits: { kind: 'rlimits' },
  limitsProblem: 'No control group may be made here.',
  kernels: { type: 'hello', library: { isa: 'avx2', kernels: ['sum'] }, problem: null },
  launcher: '/engine/covey-launch',
  cpus: 8,
  memoryBytes: 10e9,
};
const none: ComputeProbe = {
  ...probe,
  sandbox: { kind: 'none' },
  sandboxProblem: 'bubblewrap is not installed.',
};
const here = { since: null, why: '' };
const all = lendRulesSchema.parse({ kinds: { commands: true } });

describe('what a machine computes for others', () => {
  it('is no program until its owner allows that', () => {
    expect(computeFacts(probe, lendRulesSchema.parse({}), false)).toMatchObject({
      commands: { allowed: false, sandbox: 'bubblewrap', network: false },
      kernels: { isa: 'avx2' },
      problems: [],
    });
    expect(taskRules(probe, lendRulesSchema.parse({}), false, here).noCommands?.code).toBe(
      'commands_forbidden',
    );
  });

  it('is no program on a controller without a sandbox', () => {
    expect(computeFacts(none, all, false).commands.allowed).toBe(true);
    expect(computeFacts(none, all, true).commands.allowed).toBe(false);
    expect(taskRules(none, all, true, here).noCommands).toMatchObject({ code: 'sandbox_unavailable' });
    expect(computeFacts(none, all, true).problems).toContain('bubblewrap is not installed.');
    expect(computeFacts({ ...probe, launcher: null }, all, false).commands.allowed).toBe(false);
  });

  it('keeps to what the owner lends', () => {
    const rules = lendRulesSchema.parse({
      limits: { cpuThreads: 3, ramBytes: 1e9 },
      kinds: { kernels: false },
    });
    expect(computeFacts(probe, rules, false)).toMatchObject({ cpus: 3, memoryBytes: 1e9, kernels: null });
    expect(computeFacts(probe, all, false)).toMatchObject({ cpus: 8, memoryBytes: 8e9 });
    expect(taskRules(probe, rules, false, here)).toMatchObject({
      cpus: 3,
      noKernels: { code: 'commands_forbidden' },
    });
  });

  it('has the network only where a range of ports is set', () => {
    expect(taskRules(probe, all, false, here).noNetwork?.code).toBe('network_forbidden');
    const rules = lendRulesSchema.parse({
      network: { interface: 'eth0', ports: { from: 20_000, to: 20_100 } },
    });
    expect(taskRules(probe, rules, false, here).noNetwork).toBeNull();
    expect(
      lendRulesSchema.safeParse({ network: { interface: 'eth0', ports: { from: 2_000, to: 1_999 } } })
        .success,
    ).toBe(false);
  });
});
