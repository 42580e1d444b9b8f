import { describe, expect, it } from 'vitest';
import type { ComputeFacts } from '#shared/domain/task.ts';
import { defaultSettings, type Settings } from '#shared/settings.ts';
import { exampleContext, runningNode } from '../fixtures.ts';
import { checkCompute } from './compute.ts';

const facts: ComputeFacts = {
  kernels: { isa: 'avx2', kernels: ['sum'] },
  commands: { allowed: true, sandbox: 'bubblewrap', limits: 'cgroup2', network: false },
  cpus: 4,
  memoryBytes: 1e9,
  problems: [],
};

function check(change: Partial<ComputeFacts>, commands = true, network: Settings['lend']['network'] = null) {
  const settings: Settings = {
    ...defaultSettings,
    lend: { ...defaultSettings.lend, kinds: { inference: true, kernels: true, commands }, network },
  };
  return checkCompute(exampleContext({ settings, node: runningNode({ compute: { ...facts, ...change } }) }));
}

describe('the check of jobs', () => {
  it('says how programs are kept apart and limited', () => {
    expect(check({})).toEqual({
      status: 'ok',
      summary:
        'Jobs run kernels (avx2) and programs of others, kept apart by bubblewrap, limited by control groups (version 2) here',
    });
  });

  it('is content with a machine whose owner allows no programs', () => {
    const finding = check({ commands: { ...facts.commands, allowed: false } }, false);
    expect(finding).toEqual({ status: 'ok', summary: 'Jobs run kernels (avx2) here' });
  });

  it('warns where programs act as the owner, and where something that is allowed cannot be', () => {
    expect(check({ commands: { ...facts.commands, sandbox: 'none' } })).toMatchObject({ status: 'warn' });
    expect(check({ kernels: null, problems: ['There is no library.'] })).toMatchObject({
      status: 'warn',
      action: 'There is no library.',
    });
    const commands = { ...facts.commands, allowed: false };
    expect(check({ commands, problems: ['bubblewrap does not work here.'] })).toMatchObject({
      status: 'warn',
      action: 'bubblewrap does not work here.',
    });
  });

  it('complains of a network interface that is set but not there', () => {
    const network = { interface: 'nope0', ports: { from: 20_000, to: 20_010 } };
    expect(check({}, true, network)).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('without a network: nope0 is not there'),
    });
    expect(check({ commands: { ...facts.commands, network: true } }, true, network).status).toBe('ok');
  });

  it('is skipped without a node that lends', () => {
    expect(checkCompute(exampleContext({ node: null })).status).toBe('skipped');
    expect(checkCompute(exampleContext({ node: runningNode({}) })).status).toBe('skipped');
  });
});
