import { describe, expect, it } from 'vitest';
import { loadBodySchema } from '#shared/api/schema.ts';
import type { Preview } from '#shared/api/dashboard.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import {
  fill,
  layersByNode,
  loadBody,
  memoryByNode,
  refusalSentences,
  type LoadChoice,
} from './placement-view.ts';

const anna = 'a'.repeat(64) as NodeId;
const ben = 'b'.repeat(64) as NodeId;
const choice: LoadChoice = {
  model: 'tiny',
  nodes: [anna, ben],
  layers: null,
  leader: null,
  contextPerRequest: null,
  parallel: null,
  name: '',
};
const preview: Preview = {
  ok: true,
  layersTotal: 9,
  contextPerRequest: 512,
  parallel: 4,
  stages: [
    {
      nodeId: ben,
      nodeName: 'ben',
      role: 'stage',
      device: 'CPU',
      layers: 2,
      percent: 22,
      neededBytes: 20,
      availableBytes: 100,
    },
    {
      nodeId: anna,
      nodeName: 'anna',
      role: 'leader',
      device: 'CPU',
      layers: 4,
      percent: 44,
      neededBytes: 40,
      availableBytes: 50,
    },
    {
      nodeId: ben,
      nodeName: 'ben',
      role: 'stage',
      device: 'CUDA0',
      layers: 3,
      percent: 33,
      neededBytes: 30,
      availableBytes: 60,
    },
  ],
  error: null,
};

describe('the body of a load', () => {
  it('names machines only while their shares are up to the planner', () => {
    expect(loadBody(choice)).toEqual({ model: 'tiny', nodes: [anna, ben] });
    expect(loadBody({ ...choice, nodes: [] })).toEqual({ model: 'tiny' });
  });

  it('has layers as shares, and the first machine leads', () => {
    const body = loadBody({ ...choice, layers: [6, 3], contextPerRequest: 256, parallel: 2, name: ' two ' });
    expect(body).toEqual({
      model: 'tiny',
      split: { [anna]: 6, [ben]: 3 },
      leader: anna,
      contextPerRequest: 256,
      parallel: 2,
      name: 'two',
    });
    expect(loadBodySchema.safeParse(body).success).toBe(true);
  });

  it('leaves a leader without layers out of the shares', () => {
    expect(loadBody({ ...choice, layers: [0, 9] })).toEqual({
      model: 'tiny',
      split: { [ben]: 9 },
      leader: anna,
    });
  });

  it('has no shares for one machine alone', () => {
    expect(loadBody({ ...choice, nodes: [ben], layers: [9], leader: ben })).toEqual({
      model: 'tiny',
      nodes: [ben],
      leader: ben,
    });
  });
});

describe('a preview', () => {
  it('is read by machine, the leader first', () => {
    expect(layersByNode(preview)).toEqual([
      { nodeId: anna, layers: 4 },
      { nodeId: ben, layers: 5 },
    ]);
    const memory = memoryByNode(preview);
    expect(memory.get(ben)).toMatchObject({ neededBytes: 50, availableBytes: 160, leads: false });
    expect(memory.get(ben)?.devices.map((device) => device.device)).toEqual(['CPU', 'CUDA0']);
    expect(memory.get(anna)?.leads).toBe(true);
  });

  it('that was refused tells memory by its reasons', () => {
    const refused: Preview = {
      ...preview,
      ok: false,
      stages: [],
      error: {
        code: 'placement_refused',
        message: 'It does not fit.',
        reasons: [
          { code: 'insufficient_memory', message: 'In all.', neededBytes: 300, availableBytes: 200 },
          {
            code: 'insufficient_memory',
            message: 'On ben.',
            nodeId: ben,
            neededBytes: 200,
            availableBytes: 100,
          },
          {
            code: 'insufficient_memory',
            message: 'On ben.',
            nodeId: ben,
            neededBytes: 200,
            availableBytes: 100,
          },
        ],
      },
    };
    expect([...memoryByNode(refused).values()]).toEqual([
      { nodeId: ben, neededBytes: 200, availableBytes: 100, leads: false, devices: [] },
    ]);
    expect(refusalSentences(refused)).toEqual(['In all.', 'On ben.']);
    expect(refusalSentences(preview)).toEqual([]);
    const bare: Preview = { ...refused, error: { code: 'no_nodes', message: 'No machine.' } };
    expect(refusalSentences(bare)).toEqual(['No machine.']);
  });

  it('fills bars', () => {
    expect(fill({ neededBytes: 25, availableBytes: 100 })).toEqual({ used: 0.25, fits: true });
    expect(fill({ neededBytes: 250, availableBytes: 100 })).toEqual({ used: 1, fits: false });
    expect(fill({ neededBytes: 1, availableBytes: 0 })).toEqual({ used: 1, fits: false });
    expect(fill({ neededBytes: 0, availableBytes: 0 })).toEqual({ used: 0, fits: true });
  });
});
