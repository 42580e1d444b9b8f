import { describe, expect, test } from 'vitest';
import { previewSchema, type Preview } from '#shared/api/dashboard.ts';
import type { LoadBody } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { GIB, model } from '../placement/fixtures.ts';
import { useBench } from '../service/fixtures.ts';
import { connected, facts, joined, nodeId, telemetry } from '../state/fixtures.ts';
import { loadModel } from './load.ts';
import { previewLoad } from './preview.ts';

const bench = useBench();
const nobody = new AbortController().signal;

/** Two machines with 12 GiB to spare each; `alpha` has a model of 8 GiB with 16 layers. */
function covey(info = model()): void {
  bench.runtime.dispatch(joined('a', 'alpha'), joined('b', 'beta'), connected('a'), connected('b'));
  bench.answer = (id) => {
    if (id === nodeId('a')) return { path: '/m/test.gguf', hash: 'h', info };
    throw new CoveyError('model_file_not_found', 'It is not here.');
  };
}
async function preview(body: Partial<LoadBody> = {}): Promise<Preview> {
  const result = await previewLoad(bench, { model: '/m/test.gguf', ...body }, nobody);
  expect(previewSchema.parse(result)).toEqual(result);
  return result;
}

describe('preview', () => {
  test('shows the split that a load makes, and leaves nothing', async () => {
    covey();
    const body = { split: { alpha: 70, beta: 30 } };
    const result = await preview(body);
    expect(result).toMatchObject({ ok: true, error: null, layersTotal: 17, contextPerRequest: 4_096 });
    expect(result.stages).toMatchObject([
      { nodeName: 'alpha', role: 'leader', device: 'CPU', layers: 12 },
      { nodeName: 'beta', role: 'stage', device: 'CPU', layers: 5 },
    ]);
    expect(result.stages[0]?.percent).toBeCloseTo((12 / 17) * 100);
    expect(result.stages[1]?.availableBytes).toBe(Math.floor(12 * GIB * 0.8));
    expect(result.stages.every((stage) => stage.neededBytes < stage.availableBytes)).toBe(true);
    expect(bench.runtime.state.deployments.size).toBe(0);

    const { id } = await loadModel(bench, { model: '/m/test.gguf', ...body }, nobody);
    const replica = bench.runtime.state.deployments.get(id)?.replica;
    expect([replica?.plan.leader.localLayers, replica?.stages[0]?.layers]).toEqual([12, 5]);
    expect([replica?.plan.leader.estimatedBytes, replica?.stages[0]?.estimatedBytes]).toEqual(
      result.stages.map((stage) => stage.neededBytes),
    );
  });

  test('of what is loaded already is how it lies; with other arguments it is the refusal of a load', async () => {
    covey();
    const body = { split: { alpha: 70, beta: 30 } };
    await loadModel(bench, { model: '/m/test.gguf', ...body }, nobody);
    expect(await preview(body)).toMatchObject({ ok: true, stages: [{ layers: 12 }, { layers: 5 }] });
    expect(await preview({ split: { alpha: 1 } })).toMatchObject({
      ok: false,
      error: { code: 'already_loaded' },
    });
  });

  test('where memory is missing still shows the split, with what is needed and what there is', async () => {
    covey(model({ layerBytes: 2 * GIB }));
    const result = await preview({ split: { alpha: 50, beta: 50 } });
    expect(result).toMatchObject({ ok: false, layersTotal: 17, error: { code: 'placement_refused' } });
    expect(result.stages).toMatchObject([{ layers: 9 }, { layers: 8 }]);
    for (const stage of result.stages) expect(stage.neededBytes).toBeGreaterThan(stage.availableBytes);
    expect(result.error?.reasons?.map((reason) => reason.code)).toContain('insufficient_memory');

    // Nobody named a machine: all that may work are shown.
    const anywhere = await preview();
    expect(anywhere.stages.map((stage) => stage.nodeName)).toEqual(['alpha', 'beta']);
    expect(anywhere.ok).toBe(false);
  });

  test('shows a graphics card beside the RAM of its machine', async () => {
    covey();
    const gpu = {
      id: 'CUDA0',
      kind: 'gpu' as const,
      backend: 'CUDA',
      name: 'Card',
      totalBytes: 10 * GIB,
      freeBytes: 10 * GIB,
      pciId: null,
    };
    const { hardware } = facts;
    if (!hardware.devices.known) throw new Error('the fixture knows its devices');
    const devices = { known: true as const, value: [...hardware.devices.value, gpu] };
    bench.runtime.dispatch(
      connected('a', { session: 2, facts: { ...facts, hardware: { ...hardware, devices } } }),
    );
    const { stages } = await preview({ split: { alpha: 50, beta: 50 } });
    expect(stages[0]).toMatchObject({ role: 'leader', device: 'CPU, CUDA0', layers: 9 });
    const { ramAvailableBytes } = telemetry;
    expect(stages[0]?.availableBytes).toBe(Math.floor(ramAvailableBytes * 0.8) + Math.floor(10 * GIB * 0.8));
  });

  test.each([
    ['a machine that is not there', { nodes: ['attic'] }, 'node_not_found', 'nodes'],
    ['a share of nothing', { split: { alpha: 0 } }, 'invalid_request', 'split'],
    ['a leader without the file', { leader: 'beta' }, 'model_file_not_found', 'model'],
    ['too much context', { contextPerRequest: 1_000_000 }, 'placement_refused', 'contextPerRequest'],
    ['a share below one layer', { split: { alpha: 1_000, beta: 1 } }, 'placement_refused', 'weights'],
  ])('%s is an answer, not an error of the request', async (_what, body, code, field) => {
    covey();
    expect(await preview(body)).toMatchObject({ ok: false, stages: [], error: { code, field } });
  });

  test('a machine that is paused is refused by name', async () => {
    covey();
    bench.runtime.dispatch({ type: 'node-paused', at: 5, nodeId: nodeId('b') });
    const { error } = await preview({ split: { alpha: 50, beta: 50 } });
    expect(error?.message).toBe('Machine "beta" cannot be used: it is paused.');
  });

  test('is over when the client leaves', async () => {
    covey();
    bench.answer = () => {
      throw new CoveyError('cancelled', 'The client closed the connection.');
    };
    await expect(preview()).rejects.toMatchObject({ code: 'cancelled' });
  });
});
