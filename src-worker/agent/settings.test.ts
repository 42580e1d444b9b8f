import { describe, expect, it } from 'vitest';
import { llama, rpc } from './fixtures.ts';
import { batchTokens, leaderPoll, leaderThreads, stageThreads } from './settings.ts';

const mib = 1024 ** 2;
const gib = 1024 ** 3;

describe('threads', () => {
  it.each([
    ['a large stage gets the cores, but for one where there are many', 10 * gib, 8, 0, 7],
    ['on few cores it gets all', 10 * gib, 2, 0, 2],
    ['a small stage gets what its weights are worth', 50 * mib, 8, 0, 2],
    ['a tiny one gets one', 1 * mib, 8, 0, 1],
    ['others that compute here keep their share', 10 * gib, 9, 1, 4],
    ['never none', 10 * gib, 1, 3, 1],
  ])('%s', (_case, weightBytes, cores, others, threads) => {
    expect(stageThreads(rpc({ weightBytes }), cores, others)).toBe(threads);
  });

  it('are as told when told, and one beside an accelerator', () => {
    expect(stageThreads(rpc({ threads: 5 }), 2, 3)).toBe(5);
    expect(stageThreads(rpc({ device: 'CUDA0' }), 16, 0)).toBe(1);
  });

  it('of a leader follow the layers that it computes itself', () => {
    expect(leaderThreads(llama({ stages: 2, cpuLayers: 0, modelBytes: 10 * gib }), 8, 0)).toBe(1);
    expect(leaderThreads(llama({ stages: 2, cpuLayers: 9, modelBytes: 10 * gib }), 8, 0)).toBe(7);
    expect(leaderThreads(llama({ stages: 0, cpuLayers: 17, modelBytes: 10 * gib }), 8, 0)).toBe(8);
    expect(leaderThreads(llama({ stages: 2, cpuLayers: 9, modelBytes: 1_000_000 }), 8, 0)).toBe(1);
  });
});

it('polls only where one machine computes the model alone and runs nothing else', () => {
  const alone = llama({ stages: 0, cpuLayers: 17 });
  expect(leaderPoll(alone, 0)).toBe(50);
  expect(leaderPoll(alone, 1)).toBe(0);
  expect(leaderPoll(llama({ stages: 1, cpuLayers: 9 }), 0)).toBe(0);
});

it('takes smaller batches for larger models', () => {
  expect([0.5 * gib, 4 * gib, 40 * gib].map(batchTokens)).toEqual([512, 256, 128]);
});
