import { describe, expect, test } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { nodeViewSchema } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ControllerService } from '../gateway/ports.ts';
import type { Transfers } from '../models/transfers.ts';
import type { Routes } from '../deployments/routes.ts';
import { stateOnly } from '../doctor/fixtures.ts';
import { connected, deployment, joined, nodeId } from '../state/fixtures.ts';
import { createControllerService, type ServiceOptions } from './controller-service.ts';
import { useBench } from './fixtures.ts';
import { createNodeHistories } from './node-history.ts';
import { createNodeLogs } from './node-logs.ts';

const bench = useBench();
const removed: NodeId[] = [];
const nobody = new AbortController().signal;

function serve(): ControllerService {
  bench.runtime.dispatch(joined('a', 'alpha'), joined('b', 'beta'), connected('a'), connected('b'));
  return createControllerService({
    ...bench,
    routes: { running: new Map() } as unknown as Routes,
    transfers: {} as Transfers,
    logs: createNodeLogs(),
    histories: createNodeHistories(),
    live: { subscribe: () => () => undefined },
    about: () => ({}) as never,
    onRemoved: (id) => removed.push(id),
  });
}

describe('a machine', () => {
  test('gets another name, which is an event and lasts', () => {
    const service = serve();
    const view = service.renameNode('alpha', 'attic');
    expect(nodeViewSchema.parse(view)).toMatchObject({ id: nodeId('a'), name: 'attic' });
    expect(service.node('attic').id).toBe(nodeId('a'));
    expect(() => service.node('alpha')).toThrow(/no machine "alpha"/);
    expect(service.eventHistory({ limit: 1 }).events).toMatchObject([
      { kind: 'node-renamed', message: 'alpha is called attic now.', nodeId: nodeId('a') },
    ]);
    expect(bench.store.load(0).nodes.get(nodeId('a'))?.durable.name).toBe('attic');
    service.renameNode('attic', 'attic');
    expect(service.eventHistory({ limit: 10, kind: ['node-renamed'] }).events).toHaveLength(1);
  });

  test('does not get the name of another', () => {
    const service = serve();
    expect(() => service.renameNode('alpha', 'beta')).toThrowError(
      expect.objectContaining({ code: 'node_name_taken', details: { field: 'name' } }),
    );
    expect(service.node('alpha').id).toBe(nodeId('a'));
  });

  test('answers a ping, or says why not', async () => {
    const service = serve();
    bench.answer = () => ({});
    const answer = await service.ping('alpha', nobody);
    expect(answer).toMatchObject({ nodeId: nodeId('a'), nodeName: 'alpha' });
    expect(answer.rttMs).toBeGreaterThanOrEqual(0);
    expect(bench.asked).toEqual([{ nodeId: nodeId('a'), method: 'node.ping', params: {} }]);
    bench.answer = () => {
      throw new CoveyError('node_lost', 'alpha does not answer.');
    };
    await expect(service.ping('alpha', nobody)).rejects.toMatchObject({ code: 'node_lost' });
    await expect(service.ping('gamma', nobody)).rejects.toMatchObject({ code: 'node_not_found' });
  });

  test('is paused once, and resumed', () => {
    const service = serve();
    expect(service.pause('alpha')).toMatchObject({ status: 'paused', eligible: false, pausedAt: 1_000 });
    bench.now = 2_000;
    expect(service.pause('alpha').pausedAt).toBe(1_000);
    expect(bench.store.load(0).nodes.get(nodeId('a'))?.durable.pausedAt).toBe(1_000);
    expect(service.resume('alpha')).toMatchObject({ status: 'ready', eligible: true, pausedAt: null });
    expect(
      service
        .eventHistory({ limit: 10, kind: ['node-paused', 'node-resumed'] })
        .events.map(({ kind }) => kind),
    ).toEqual(['node-resumed', 'node-paused']);
  });

  test('that was removed still has its events, under its whole id', () => {
    const service = serve();
    service.removeNode('alpha');
    expect(removed).toEqual([nodeId('a')]);
    const { events } = service.eventHistory({ limit: 10, node: nodeId('a') });
    expect(events.map(({ kind }) => kind)).toEqual(['node-removed', 'session-opened', 'node-joined']);
    expect(() => service.eventHistory({ limit: 10, node: 'alpha' })).toThrow(/no machine "alpha"/);
  });
});

describe('a model in a library', () => {
  const library = {
    models: [{ name: 'tiny', path: '/m/tiny.gguf', fileBytes: 1, addedAt: 0, source: '', info: null }],
  };

  test('is removed from one machine', async () => {
    const service = serve();
    bench.answer = (_id, method) => (method === 'model.list' ? library : {});
    await service.removeModel('alpha', 'tiny', nobody);
    expect(bench.asked.at(-1)).toEqual({
      nodeId: nodeId('a'),
      method: 'model.remove',
      params: { name: 'tiny' },
    });
    expect(service.eventHistory({ limit: 1 }).events).toMatchObject([
      { kind: 'audit-model-removed', message: 'The model tiny was removed from alpha.' },
    ]);
  });

  test('that a deployment reads, or that is not there, is refused before anything is done', async () => {
    const service = serve();
    bench.answer = (_id, method) => (method === 'model.list' ? library : {});
    bench.runtime.dispatch({ type: 'deployment-created', at: 0, deployment: deployment() });
    await expect(service.removeModel('alpha', 'tiny', nobody)).rejects.toMatchObject({
      code: 'model_in_use',
      message: expect.stringContaining('d-00000001') as string,
    });
    await expect(service.removeModel('alpha', 'none', nobody)).rejects.toMatchObject({
      code: 'model_not_found',
      details: { field: 'name' },
    });
    expect(bench.asked.map(({ method }) => method)).toEqual(['model.list', 'model.list']);
    await service.removeModel('beta', 'tiny', nobody);
  });
});

test('the own machine of the controller is not removed, others are', () => {
  const runtime = stateOnly(joined('c', 'hall'), joined('a', 'anna'));
  const closed: NodeId[] = [];
  // Removing needs nothing else.
  const options = {
    runtime: Object.assign(runtime, { commit: runtime.dispatch }),
    clock: { now: () => 1 },
    about: () => ({ nodeId: nodeId('c'), name: 'hall' }),
    onRemoved: (id: NodeId) => void closed.push(id),
  } as unknown as ServiceOptions;
  const service = createControllerService(options);

  expect(() => service.removeNode('hall')).toThrow(
    expect.objectContaining({
      code: 'invalid_request',
      message: "hall is the controller's own machine: restart without --lend to take it out of the covey.",
    }),
  );
  expect([runtime.state.nodes.size, closed]).toEqual([2, []]);
  service.removeNode('anna');
  expect([[...runtime.state.nodes.keys()], closed]).toEqual([[nodeId('c')], [nodeId('a')]]);
});
