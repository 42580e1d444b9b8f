import { describe, expect, it } from 'vitest';
import { estimateMemory, leaderMemory } from './estimate.ts';
import { MIB, model } from './fixtures.ts';
import { consecutive } from './split.ts';

/** The made models that were measured: 4-bit ones are repacked on a CPU, the others are not. */
const measuredModels = {
  large: model({
    layerCount: 16,
    embeddingLength: 2048,
    feedForwardLength: 8192,
    headCount: 32,
    vocabSize: 512,
    tensorBytes: {
      embedding: 589_824,
      output: 598_016,
      layers: new Array<number>(16).fill(34_226_176),
      other: 0,
    },
    kvElements: new Array<number>(16).fill(1024),
  }),
  medium: model({
    layerCount: 12,
    vocabSize: 512,
    tensorBytes: {
      embedding: 294_912,
      output: 299_008,
      layers: new Array<number>(12).fill(8_855_552),
      other: 0,
    },
    kvElements: new Array<number>(12).fill(1024),
  }),
  words: model({
    layerCount: 8,
    embeddingLength: 512,
    feedForwardLength: 1536,
    headCount: 8,
    vocabSize: 32_000,
    tensorBytes: {
      embedding: 65_536_000,
      output: 65_538_048,
      layers: new Array<number>(8).fill(12_587_008),
      other: 0,
    },
    kvElements: new Array<number>(8).fill(512),
  }),
  story: model({
    layerCount: 8,
    embeddingLength: 192,
    feedForwardLength: 160,
    headCount: 2,
    vocabSize: 153,
    tensorBytes: {
      embedding: 117_504,
      output: 118_272,
      layers: new Array<number>(8).fill(665_088),
      other: 0,
    },
    kvElements: new Array<number>(8).fill(128),
  }),
} as const;

/**
 * What llama-server v0.4.0 printed with `-ub 512 --no-kv-unified --embeddings --pooling mean`: for each rpc-server
 * "model", "KV" and "compute buffer size" in MiB.
 */
const printed = [
  {
    name: 'large',
    context: 1024,
    parallel: 1,
    cpu: 0,
    stages: [
      { units: 10, model: 326.41, kv: 20, compute: 80.04 },
      { units: 7, model: 196.41, kv: 12, compute: 80.05 },
    ],
  },
  {
    name: 'medium',
    context: 4096,
    parallel: 4,
    cpu: 7,
    stages: [{ units: 6, model: 42.51, kv: 160, compute: 32.02 }],
  },
  {
    name: 'medium',
    context: 4096,
    parallel: 1,
    cpu: 7,
    stages: [{ units: 6, model: 42.51, kv: 40, compute: 32.01 }],
  },
  {
    name: 'medium',
    context: 1024,
    parallel: 4,
    cpu: 7,
    stages: [{ units: 6, model: 42.51, kv: 40, compute: 31.02 }],
  },
  {
    name: 'words',
    context: 4096,
    parallel: 4,
    cpu: 0,
    stages: [
      { units: 4, model: 48.02, kv: 64, compute: 32.04 },
      { units: 5, model: 110.52, kv: 64, compute: 84.59 },
    ],
  },
  {
    name: 'words',
    context: 8192,
    parallel: 1,
    cpu: 5,
    stages: [{ units: 4, model: 98.51, kv: 24, compute: 72.51 }],
  },
  {
    name: 'story',
    context: 4096,
    parallel: 4,
    cpu: 5,
    stages: [{ units: 4, model: 2.02, kv: 12, compute: 5.77 }],
  },
] as const;

/** The leader's own memory (RssAnon, MiB) after full batches on all slots, everything on its CPU. */
const resident = [
  { name: 'large', context: 4096, parallel: 4, ownMib: 1112.5 },
  { name: 'medium', context: 4096, parallel: 4, ownMib: 529.2 },
] as const;

const RPC_PROCESS_MIB = 16;

describe('estimateMemory', () => {
  it.each(printed)(
    'matches what the engine printed: $name, $context x $parallel, $cpu units local',
    (run) => {
      const ranges = consecutive(
        run.stages.map((stage) => stage.units),
        run.cpu,
      );
      const estimate = estimateMemory(
        measuredModels[run.name],
        { contextPerRequest: run.context, parallel: run.parallel },
        { leaderCpu: { from: 0, to: run.cpu }, leaderDevices: [], stages: ranges },
      );
      for (const [index, stage] of run.stages.entries()) {
        const use = estimate.stages[index];
        if (use === undefined) throw new Error('a stage is missing');
        expect(use.weightBytes / MIB).toBeCloseTo(stage.model, 1);
        expect(use.cacheBytes / MIB).toBeCloseTo(stage.kv, 1);
        const workMib = use.workBytes / MIB - RPC_PROCESS_MIB;
        expect(workMib).toBeGreaterThanOrEqual(stage.compute);
        expect(workMib).toBeLessThanOrEqual(Math.max(stage.compute * 1.25, stage.compute + 4));
      }
    },
  );

  it.each(resident)('covers the memory a leader was seen to use: $name', (run) => {
    const whole = measuredModels[run.name];
    const use = leaderMemory(
      whole,
      { from: 0, to: whole.layerCount + 1 },
      { contextPerRequest: run.context, parallel: run.parallel },
    );
    expect(use.totalBytes / MIB).toBeGreaterThan(run.ownMib);
    expect(use.totalBytes / MIB).toBeLessThan(run.ownMib * 1.1);
  });

  it('loads tied embeddings a second time for the output, wherever it is', () => {
    const tied = model({ tiedOutput: true, layerCount: 2 });
    const shape = { contextPerRequest: 256, parallel: 1 };
    const split = { leaderCpu: { from: 0, to: 2 }, leaderDevices: [], stages: [{ from: 2, to: 3 }] };
    const { leader, stages } = estimateMemory(tied, shape, split);
    expect(stages[0]?.weightBytes).toBe(tied.tensorBytes.output + tied.tensorBytes.embedding);
    expect(leader.weightBytes).toBe(tied.tensorBytes.embedding + 2 * 512 * MIB);
  });

  it('adds up over any split to the weights of the model, and never less memory for more context', () => {
    const small = measuredModels.medium;
    const at = (contextPerRequest: number, parallel: number) =>
      estimateMemory(
        small,
        { contextPerRequest, parallel },
        { leaderCpu: { from: 0, to: 3 }, leaderDevices: [{ from: 3, to: 5 }], stages: [{ from: 5, to: 13 }] },
      );
    const { leader, leaderDevices, stages } = at(1024, 1);
    const weights = [leader, ...leaderDevices, ...stages].reduce((sum, use) => sum + use.weightBytes, 0);
    const { embedding, output, layers } = small.tensorBytes;
    expect(weights).toBe(embedding + output + layers.reduce((sum, bytes) => sum + bytes, 0));
    expect(at(2048, 1).totalBytes).toBeGreaterThan(at(1024, 1).totalBytes);
    expect(at(1024, 2).totalBytes).toBeGreaterThan(at(1024, 1).totalBytes);
  });

  it('counts recurrent states per request', () => {
    const hybrid = model({ layerCount: 2, stateBytes: [MIB, 0] });
    const use = leaderMemory(hybrid, { from: 0, to: 3 }, { contextPerRequest: 256, parallel: 3 });
    expect(use.cacheBytes).toBe(3 * MIB);
  });
});
