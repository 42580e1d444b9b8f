import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { candidate, device, GIB, MIB, model, nodeId, request } from './fixtures.ts';
import { planReplica } from './plan-replica.ts';
import { CPU, engineAssignment } from './split.ts';
import type { CandidateNode, PlanRequest, Refusal, ReplicaPlan } from './types.ts';

const policy = { headroomFraction: 0.2 };
const [a, b, c] = [nodeId('a'), nodeId('b'), nodeId('c')];
const holder = candidate('a', { holdsModel: true });

function planned(asked: PlanRequest, nodes: readonly CandidateNode[]): ReplicaPlan {
  const result = planReplica(asked, nodes, policy);
  if (!result.ok) throw new Error(result.error.map((refusal) => refusal.message).join('\n'));
  return result.value;
}

function refused(asked: PlanRequest, nodes: readonly CandidateNode[]): readonly Refusal[] {
  const result = planReplica(asked, nodes, policy);
  if (result.ok) throw new Error(`planned: ${JSON.stringify(result.value)}`);
  return result.error;
}

const codes = (refusals: readonly Refusal[]): string[] => refusals.map((refusal) => refusal.code);

/** Units by node as the engine will place them. */
function achieved(plan: ReplicaPlan): Map<NodeId, number> {
  const assignment = engineAssignment(plan.layersTotal - 1, plan.engine.gpuLayers, plan.engine.tensorSplit);
  const counts = new Map<NodeId, number>();
  for (const at of assignment) {
    const stage = plan.stages[at - plan.engine.localDevices.length];
    const owner = at === CPU || stage === undefined ? plan.leader.nodeId : stage.nodeId;
    counts.set(owner, (counts.get(owner) ?? 0) + 1);
  }
  return counts;
}

describe('planReplica with shares', () => {
  it('splits 60/40, the leader on its CPU through the layers that are not offloaded', () => {
    const plan = planned(request({ weights: { [a]: 60, [b]: 40 } }), [holder, candidate('b')]);
    expect(plan).toMatchObject({
      contextPerRequest: 4096,
      parallel: 4,
      layersTotal: 17,
      leader: { nodeId: a, localLayers: 10, cpuLayers: 10 },
      stages: [{ nodeId: b, device: 'CPU', layers: 7 }],
      engine: { gpuLayers: 7, localDevices: [], tensorSplit: [7] },
    });
    expect(plan.stages[0]?.weightBytes).toBe(6 * 512 * MIB + 8 * MIB);
    expect(achieved(plan)).toEqual(
      new Map([
        [a, 10],
        [b, 7],
      ]),
    );
  });

  it('leaves the leader without layers when it has no share', () => {
    const plan = planned(request({ weights: { [b]: 1, [c]: 1 }, leader: a }), [
      holder,
      candidate('b'),
      candidate('c'),
    ]);
    expect(plan.leader).toMatchObject({ nodeId: a, localLayers: 0, cpuLayers: 0 });
    expect(plan.stages.map((stage) => stage.layers)).toEqual([9, 8]);
    expect(plan.engine).toEqual({ gpuLayers: 17, localDevices: [], tensorSplit: [9, 8] });
    expect(plan.leader.estimatedBytes).toBeGreaterThan(8 * MIB);
  });

  it('lets the holder with the largest share lead', () => {
    const nodes = [holder, candidate('b', { holdsModel: true })];
    expect(planned(request({ weights: { [a]: 1, [b]: 2 } }), nodes).leader.nodeId).toBe(b);
    expect(planned(request({ weights: { [a]: 1, [b]: 2 }, leader: a }), nodes).leader.nodeId).toBe(a);
  });

  it.each([0, -1, Number.NaN, Infinity])('refuses a share of %s by name', (weight) => {
    const refusals = refused(request({ weights: { [a]: 1, [b]: weight } }), [holder, candidate('b')]);
    expect(refusals).toMatchObject([{ code: 'weight_invalid', field: 'weights', nodeId: b }]);
    expect(refusals[0]?.message).toContain('"b"');
  });

  it('refuses a share too small for one layer, and names the node', () => {
    const refusals = refused(request({ weights: { [a]: 99, [b]: 1 } }), [holder, candidate('b')]);
    expect(refusals).toMatchObject([{ code: 'share_too_small', field: 'weights', nodeId: b }]);
    expect(refusals[0]?.message).toContain('17 layers');
  });

  it('refuses names that do not exist and says which do', () => {
    const refusals = refused(request({ weights: { [a]: 1, [c]: 1 }, leader: nodeId('d') }), [
      holder,
      candidate('b'),
    ]);
    expect(refusals.map((refusal) => [refusal.code, refusal.field, refusal.nodeId])).toEqual([
      ['node_unknown', 'weights', c],
      ['node_unknown', 'leader', nodeId('d')],
    ]);
    expect(refusals[0]?.message).toContain('a, b');
  });

  it('wants shares and nodes to agree', () => {
    const nodes = [holder, candidate('b'), candidate('c')];
    expect(refused(request({ nodes: [a], weights: { [a]: 1, [b]: 1 } }), nodes)).toMatchObject([
      { code: 'weight_invalid', nodeId: b },
    ]);
    expect(refused(request({ nodes: [a, b], weights: { [a]: 1 } }), nodes)).toMatchObject([
      { code: 'weight_invalid', nodeId: b },
    ]);
    expect(refused(request({ nodes: [a, a] }), nodes)).toMatchObject([{ code: 'node_repeated', nodeId: a }]);
    expect(codes(refused(request({ nodes: [] }), nodes))).toEqual(['no_nodes']);
    expect(codes(refused(request({ weights: {} }), nodes))).toEqual(['no_nodes']);
    expect(
      planned(request({ nodes: [a, b], weights: { [b]: 1 }, leader: a }), nodes).leader.localLayers,
    ).toBe(0);
  });

  it('refuses more nodes than layers, and more devices than the engine takes', () => {
    const letters = [...'bcdefghijklmnopqrst'];
    const nodes = [holder, ...letters.map((letter) => candidate(letter))];
    const small = model({ layerCount: 4 });
    const many = refused(
      request({ model: small, nodes: nodes.slice(0, 6).map((node) => node.nodeId) }),
      nodes,
    );
    expect(codes(many)).toEqual(['too_many_stages']);
    expect(codes(refused(request({ nodes: nodes.slice(0, 17).map((node) => node.nodeId) }), nodes))).toEqual([
      'too_many_devices',
    ]);
    expect(
      planned(request({ nodes: nodes.slice(0, 16).map((node) => node.nodeId) }), nodes).stages,
    ).toHaveLength(15);
  });

  it('never changes shares to make them fit: it refuses', () => {
    const nodes = [holder, candidate('b', { ramAvailableBytes: 2 * GIB })];
    const refusals = refused(request({ weights: { [a]: 1, [b]: 1 } }), nodes);
    expect(codes(refusals)).toEqual(['insufficient_memory', 'insufficient_memory']);
    expect(refusals[1]).toMatchObject({ nodeId: b, availableBytes: Math.floor(2 * GIB * 0.8) });
    expect(refusals[1]?.neededBytes).toBeGreaterThan(3.5 * GIB);
  });
});

describe('planReplica without shares', () => {
  it('gives named nodes layers by their free memory', () => {
    const nodes = [holder, candidate('b', { ramAvailableBytes: 48 * GIB })];
    const plan = planned(request({ nodes: [a, b] }), nodes);
    expect(plan.leader.localLayers).toBe(4);
    expect(plan.stages.map((stage) => stage.layers)).toEqual([13]);
  });

  it('moves layers away from a node that cannot hold its share', () => {
    const heavyFirst = model({
      layerCount: 4,
      tensorBytes: { embedding: 0, output: 0, layers: [6 * GIB, GIB, GIB, GIB], other: 0 },
    });
    const nodes = [holder, candidate('b', { ramAvailableBytes: 5 * GIB })];
    const plan = planned(request({ model: heavyFirst, nodes: [a, b] }), nodes);
    expect(plan.leader.localLayers).toBe(4);
    expect(plan.stages.map((stage) => stage.layers)).toEqual([1]);
  });

  it('lets the holder do it alone when it can', () => {
    const plan = planned(request(), [holder, candidate('b', { ramAvailableBytes: 64 * GIB })]);
    expect(plan.leader).toMatchObject({ nodeId: a, localLayers: 17, cpuLayers: 17 });
    expect(plan.stages).toEqual([]);
    expect(plan.engine).toEqual({ gpuLayers: 0, localDevices: [], tensorSplit: [] });
  });

  it('prefers the holder whose accelerators take the whole model to one with more RAM', () => {
    const fast = candidate('b', {
      holdsModel: true,
      devices: [device('CPU', 'cpu', 16), device('CUDA0', 'gpu', 12)],
    });
    const roomy = candidate('a', { holdsModel: true, ramAvailableBytes: 64 * GIB });
    const plan = planned(request(), [roomy, fast]);
    expect(plan.leader).toMatchObject({ nodeId: b, cpuLayers: 0 });
    expect(plan.engine).toEqual({ gpuLayers: 17, localDevices: ['CUDA0'], tensorSplit: [17] });
  });

  it('spreads over all usable nodes when the holder cannot, and leaves the others out', () => {
    const big = model({ layerCount: 40 });
    const nodes = [
      holder,
      candidate('b'),
      candidate('c', { ineligibleReasons: ['is draining'] }),
      candidate('d', { engineBuildId: 'build-2' }),
      candidate('e', { engineBuildId: null }),
    ];
    const plan = planned(request({ model: big }), nodes);
    expect([...achieved(plan)]).toEqual([
      [a, 21],
      [b, 20],
    ]);
    const refusals = refused(request({ model: model({ layerCount: 100 }) }), nodes);
    expect(codes(refusals)).toEqual([
      'insufficient_memory',
      'insufficient_memory',
      'insufficient_memory',
      'node_not_eligible',
      'engine_build_mismatch',
      'engine_missing',
    ]);
    expect(refusals[0]?.neededBytes).toBeGreaterThan(50 * GIB);
    expect(refusals[0]?.message).toMatch(/needs about 5\d\.\d GiB of memory and 25\.6 GiB may be used/);
    expect(refusals[3]?.message).toContain('it is draining');
    expect(refusals[4]?.message).toContain('build-2');
  });

  it('takes the largest nodes when there are more than devices', () => {
    const letters = [...'bcdefghijklmnopqrst'];
    const nodes = [
      candidate('a', { holdsModel: true, ramAvailableBytes: GIB }),
      ...letters.map((letter, index) => candidate(letter, { ramAvailableBytes: (4 + index) * GIB })),
    ];
    const plan = planned(request({ model: model({ layerCount: 60 }) }), nodes);
    expect(plan.stages).toHaveLength(15);
    expect(plan.stages.map((stage) => stage.nodeId)).not.toContain(nodeId('b'));
  });
});

describe('planReplica and accelerators', () => {
  const twoCards = [device('CPU', 'cpu', 16), device('CUDA0', 'gpu', 8), device('CUDA1', 'gpu', 4)];

  it('uses local cards first, then stages, in the order of --device', () => {
    const nodes = [
      candidate('a', { holdsModel: true, devices: twoCards }),
      candidate('b', { devices: twoCards }),
    ];
    const plan = planned(request({ weights: { [a]: 9, [b]: 8 } }), nodes);
    expect(plan.leader).toMatchObject({ localLayers: 9, cpuLayers: 0 });
    expect(plan.stages.map((stage) => [stage.device, stage.layers])).toEqual([
      ['CUDA0', 5],
      ['CUDA1', 3],
    ]);
    expect(plan.engine).toEqual({
      gpuLayers: 17,
      localDevices: ['CUDA0', 'CUDA1'],
      tensorSplit: [6, 3, 5, 3],
    });
  });

  it('puts on the CPU only what the cards cannot hold', () => {
    const tight = [device('CPU', 'cpu', 16), device('CUDA0', 'gpu', 4)];
    const plan = planned(request(), [candidate('a', { holdsModel: true, devices: tight })]);
    // 3.2 GiB of the card may be used: six layers of 0.5 GiB, the small output and the buffers.
    expect(plan.leader).toMatchObject({ localLayers: 17, cpuLayers: 10 });
    expect(plan.engine).toEqual({ gpuLayers: 7, localDevices: ['CUDA0'], tensorSplit: [7] });
    const remote = planned(request({ weights: { [a]: 1, [b]: 16 } }), [
      holder,
      candidate('b', { devices: tight }),
    ]);
    expect(remote.stages.map((stage) => [stage.device, stage.layers])).toEqual([
      ['CPU', 9],
      ['CUDA0', 7],
    ]);
  });

  it('counts a card that two backends show once, and room for other backends', () => {
    const twice = [
      device('CPU', 'cpu', 16),
      device('Vulkan0', 'gpu', 12, 'Vulkan', '0000:01:00.0'),
      device('CUDA0', 'gpu', 12, 'CUDA', '0000:01:00.0'),
    ];
    const plan = planned(request(), [candidate('a', { holdsModel: true, devices: twice })]);
    expect(plan.engine.localDevices).toEqual(['CUDA0']);

    const blas = candidate('a', {
      holdsModel: true,
      devices: [device('CPU', 'cpu', 16), device('BLAS', 'cpu', 16, 'BLAS')],
    });
    const nodes = [blas, ...[...'bcdefghijklmnop'].map((letter) => candidate(letter))];
    expect(codes(refused(request({ nodes: nodes.map((node) => node.nodeId) }), nodes))).toEqual([
      'too_many_devices',
    ]);
  });
});

describe('planReplica and the leader', () => {
  it('refuses a leader that does not hold the model and says who does', () => {
    const nodes = [holder, candidate('b')];
    const refusals = refused(request({ leader: b }), nodes);
    expect(refusals).toMatchObject([{ code: 'model_not_held', field: 'leader', nodeId: b }]);
    expect(refusals[0]?.message).toContain('"a"');
    expect(refused(request({ nodes: [b] }), nodes)).toMatchObject([
      { code: 'model_not_held', field: 'nodes' },
    ]);
    expect(refused(request(), [candidate('b')])[0]?.message).toContain('no node holds it');
  });

  it('refuses nodes that may not be used, with their reasons', () => {
    const busy = candidate('a', { holdsModel: true, ineligibleReasons: ['is draining', 'is paused'] });
    expect(refused(request({ leader: a }), [busy])[0]?.message).toContain('it is draining, and it is paused');
    expect(codes(refused(request(), [busy]))).toEqual(['node_not_eligible']);
    const old = candidate('b', { engineBuildId: 'build-0' });
    expect(refused(request({ nodes: [a, b] }), [holder, old])).toMatchObject([
      { code: 'engine_build_mismatch', field: 'nodes', nodeId: b },
    ]);
    expect(
      codes(refused(request({ nodes: [a] }), [candidate('a', { holdsModel: true, engineBuildId: null })])),
    ).toEqual(['engine_missing']);
  });
});

describe('planReplica and context', () => {
  it('takes at most what the model was trained for', () => {
    expect(planned(request({ model: model({ contextLength: 2048 }) }), [holder]).contextPerRequest).toBe(
      2048,
    );
    expect(planned(request({ model: model({ contextLength: 0 }) }), [holder]).contextPerRequest).toBe(4096);
    expect(planned(request({ contextPerRequest: 8192, parallel: 1 }), [holder])).toMatchObject({
      contextPerRequest: 8192,
      parallel: 1,
    });
  });

  it.each([
    ['contextPerRequest', { contextPerRequest: 8193 }],
    ['contextPerRequest', { contextPerRequest: 8 }],
    ['contextPerRequest', { contextPerRequest: 100.5 }],
    ['parallel', { parallel: 0 }],
    ['parallel', { parallel: 65 }],
  ] as const)('refuses a bad %s: %o', (field, changes) => {
    expect(refused(request(changes), [holder])).toMatchObject([{ field }]);
  });

  it('refuses a context that memory does not allow', () => {
    const cached = model({ kvElements: new Array<number>(16).fill(2048), contextLength: 1_000_000 });
    expect(planned(request({ model: cached }), [holder]).stages).toEqual([]);
    expect(codes(refused(request({ model: cached, contextPerRequest: 100_000 }), [holder]))).toContain(
      'insufficient_memory',
    );
  });
});

describe('planReplica always', () => {
  const devices = fc.array(
    fc
      .tuple(fc.constantFrom('CUDA', 'Vulkan'), fc.integer({ min: 0, max: 24 }))
      .map(([backend, gib]) => ({ backend, gib })),
    { maxLength: 3 },
  );
  const node = (letter: string) =>
    fc
      .record({
        ram: fc.integer({ min: 0, max: 40 }),
        cards: devices,
        holds: fc.nat(2),
        fine: fc.nat(9),
      })
      .map((facts) =>
        candidate(letter, {
          ramAvailableBytes: facts.ram * GIB,
          holdsModel: facts.holds > 0,
          ineligibleReasons: facts.fine > 0 ? [] : ['is draining'],
          devices: [
            device('CPU', 'cpu', facts.ram),
            ...facts.cards.map((card, index) =>
              device(`${card.backend}${index}`, 'gpu', card.gib, card.backend),
            ),
          ],
        }),
      );
  const nodes = fc.tuple(...[...'abcd'].map(node));
  const named = fc.option(fc.uniqueArray(fc.constantFrom(a, b, c, nodeId('d')), { minLength: 1 }), {
    nil: null,
  });
  const weights = fc.option(
    fc.dictionary(fc.constantFrom(a, b, c, nodeId('d')), fc.integer({ min: 1, max: 100 }), { minKeys: 1 }),
    { nil: null },
  );
  const asked = fc.record({
    layers: fc.integer({ min: 1, max: 80 }),
    nodes: named,
    weights,
    mib: fc.integer({ min: 1, max: 2000 }),
  });

  it('places every layer exactly once within the memory of each device, or gives reasons', () => {
    let plans = 0;
    fc.assert(
      fc.property(nodes, asked, (candidates, { layers, nodes: names, weights: shares, mib }) => {
        const result = planReplica(
          request({
            model: model({ layerCount: layers, layerBytes: mib * MIB }),
            nodes: shares === null ? names : null,
            weights: shares,
          }),
          candidates,
          policy,
        );
        if (!result.ok) {
          expect(result.error.length).toBeGreaterThan(0);
          for (const refusal of result.error) {
            expect(refusal.message).toMatch(/^["A-Z].*\.$/);
            expect(refusal.field).not.toBe('');
          }
          return;
        }
        plans++;
        const plan = result.value;
        const byId = new Map(candidates.map((each) => [each.nodeId, each]));
        const leader = byId.get(plan.leader.nodeId);
        expect(leader?.holdsModel).toBe(true);
        expect(plan.layersTotal).toBe(layers + 1);
        const staged = plan.stages.reduce((sum, stage) => sum + stage.layers, 0);
        expect(plan.leader.localLayers + staged).toBe(layers + 1);
        const counts = achieved(plan);
        expect(counts.get(plan.leader.nodeId) ?? 0).toBe(plan.leader.localLayers);
        expect(plan.engine.tensorSplit).toHaveLength(plan.engine.localDevices.length + plan.stages.length);
        expect(plan.engine.tensorSplit.length).toBeLessThanOrEqual(15);
        expect(plan.leader.cpuLayers).toBe(layers + 1 - plan.engine.gpuLayers);
        for (const stage of plan.stages) {
          expect(stage.layers).toBeGreaterThan(0);
          const owner = byId.get(stage.nodeId);
          expect(owner?.ineligibleReasons).toEqual([]);
          expect(stage.nodeId).not.toBe(plan.leader.nodeId);
          const card = owner?.devices.find((each) => each.id === stage.device);
          const free = card?.kind === 'gpu' ? card.freeBytes : (owner?.ramAvailableBytes ?? 0);
          expect(stage.estimatedBytes).toBeLessThanOrEqual(free * 0.8);
        }
        if (shares !== null) {
          for (const id of Object.keys(shares) as NodeId[]) expect(counts.get(id) ?? 0).toBeGreaterThan(0);
        }
        if (shares === null && names !== null) {
          for (const id of names) expect(counts.get(id) ?? 0).toBeGreaterThan(0);
        }
      }),
      { numRuns: 3000 },
    );
    expect(plans).toBeGreaterThan(300);
  });

  it('depends on nothing but its arguments', () => {
    fc.assert(
      fc.property(nodes, asked, (candidates, { layers, weights: shares }) => {
        const once = () =>
          planReplica(request({ model: model({ layerCount: layers }), weights: shares }), candidates, policy);
        expect(once()).toEqual(once());
      }),
      { numRuns: 200 },
    );
  });
});
