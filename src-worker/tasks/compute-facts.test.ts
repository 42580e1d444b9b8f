import { describe, expect, it } from 'vitest';
import { lendRulesSchema } from '#shared/domain/lend.ts';
import { computeFacts, taskRules, type ComputeProbe } from './compute-facts.ts';

const probe: ComputeProbe = {
  sandbox: { kind: 'bubblewrap', path: '/usr/bin/bwrap' },
  sandboxProblem: null,
  limits: { kind: 'rlimits' },
  limitsProblem: 'No control group may be made here.',
  processesHeld: true,
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
const there = (): boolean => true;
const here = { since: null, why: '' };
const all = lendRulesSchema.parse({ kinds: { commands: true } });

describe('what a machine computes for others', () => {
  it('is no program until its owner allows that', () => {
    expect(computeFacts(probe, lendRulesSchema.parse({}), false, there)).toMatchObject({
      commands: { allowed: false, sandbox: 'bubblewrap', network: false },
      kernels: { isa: 'avx2' },
      problems: [],
    });
    expect(taskRules(probe, lendRulesSchema.parse({}), false, here, there).noCommands?.code).toBe(
      'commands_forbidden',
    );
  });

  it('is no program on a controller without a sandbox', () => {
    expect(computeFacts(none, all, false, there).commands.allowed).toBe(true);
    expect(computeFacts(none, all, true, there).commands.allowed).toBe(false);
    expect(taskRules(none, all, true, here, there).noCommands).toMatchObject({ code: 'sandbox_unavailable' });
    expect(computeFacts(none, all, true, there).problems).toContain('bubblewrap is not installed.');
    expect(computeFacts({ ...probe, launcher: null }, all, false, there).commands.allowed).toBe(false);
  });

  it('is no program where nothing holds the number of its processes', () => {
    const root = { ...probe, processesHeld: false };
    const { commands, problems } = computeFacts(root, all, false, there);
    expect(commands).toMatchObject({ allowed: false, limits: 'rlimits' });
    expect(problems).toEqual([
      expect.stringMatching(/as root .* an account of its own .* let it make control groups/),
    ]);
    expect(taskRules(root, all, false, here, there).noCommands?.code).toBe('sandbox_unavailable');
    // Its owner has not asked for it, so there is nothing to complain of.
    expect(computeFacts(root, lendRulesSchema.parse({}), false, there).problems).toEqual([]);
  });

  it('keeps to what the owner lends', () => {
    const rules = lendRulesSchema.parse({
      limits: { cpuThreads: 3, ramBytes: 1e9 },
      kinds: { kernels: false },
    });
    expect(computeFacts(probe, rules, false, there)).toMatchObject({
      cpus: 3,
      memoryBytes: 1e9,
      kernels: null,
    });
    expect(computeFacts(probe, all, false, there)).toMatchObject({ cpus: 8, memoryBytes: 8e9 });
    expect(taskRules(probe, rules, false, here, there)).toMatchObject({
      cpus: 3,
      noKernels: { code: 'commands_forbidden' },
    });
  });

  it('has the network only where a range of ports is set', () => {
    expect(taskRules(probe, all, false, here, there).noNetwork?.code).toBe('network_forbidden');
    const rules = lendRulesSchema.parse({
      network: { interface: 'eth0', ports: { from: 20_000, to: 20_100 } },
    });
    expect(taskRules(probe, rules, false, here, there).noNetwork).toBeNull();
    expect(computeFacts(probe, rules, false, there).commands).toMatchObject({ network: true });
    // Set, but a cable is out or a VPN is down.
    const away = (): boolean => false;
    expect(taskRules(probe, rules, false, here, away).noNetwork).toEqual({
      code: 'network_forbidden',
      message: 'it has no network interface eth0 with an address now',
    });
    expect(computeFacts(probe, rules, false, away).commands).toMatchObject({
      network: false,
      networkProblem: 'has no network interface eth0 with an address now',
    });
    expect(
      lendRulesSchema.safeParse({ network: { interface: 'eth0', ports: { from: 2_000, to: 1_999 } } })
        .success,
    ).toBe(false);
  });
});
