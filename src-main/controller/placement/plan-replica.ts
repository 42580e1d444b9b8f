import type { NodeId } from '#shared/lib/ids.ts';
import { err, ok, type Result } from '#shared/lib/result.ts';
import { sizeText } from '#shared/lib/size-text.ts';
import {
  buildMismatch,
  checkNames,
  chooseShape,
  namedNodes,
  order,
  possibleLeaders,
  unusable,
} from './choose.ts';
import type { Shape } from './estimate.ts';
import { deviceLimit, layOutNode, usableBytes, type NodeLayout } from './node-layout.ts';
import { consecutive, engineSplitArguments, largestRemainder, unitCount } from './split.ts';
import type { CandidateNode, PlacementPolicy, PlanRequest, Refusal, ReplicaPlan } from './types.ts';

/** As many as an error body may carry. */
const MAX_REASONS = 64;

/** A node that takes part. The leader is always the first, with a weight of 0 if it only leads. */
interface Member {
  readonly node: CandidateNode;
  readonly weight: number;
}

interface Attempt {
  readonly members: readonly Member[];
  readonly counts: readonly number[];
  readonly layouts: readonly NodeLayout[];
}

interface Placing {
  readonly request: PlanRequest;
  readonly shape: Shape;
  readonly policy: PlacementPolicy;
  readonly units: number;
}

/**
 * Decides who computes which layers of one copy of a model, or says with all reasons why it cannot be placed.
 * Nothing is started for a plan that does not fit.
 *
 * 1. The request itself: context, parallelism, names and weights.
 * 2. The leader: it holds the file (see `possibleLeaders`).
 * 3. Nothing named: a leader that can hold the whole model alone does, rather one whose accelerators take it all.
 * 4. Who takes part: those with shares, those named, else every usable node with the leader's engine build.
 * 5. Layers per node: by the shares as they are, else by usable memory, moved away from nodes that they do not fit.
 * 6. At least one layer for each, no more devices than the engine has room for, memory for all of it.
 */
export function planReplica(
  request: PlanRequest,
  candidates: readonly CandidateNode[],
  policy: PlacementPolicy,
): Result<ReplicaPlan, readonly Refusal[]> {
  const planned = plan(request, candidates, policy);
  return planned.ok ? planned : err(planned.error.slice(0, MAX_REASONS));
}

function plan(
  request: PlanRequest,
  candidates: readonly CandidateNode[],
  policy: PlacementPolicy,
): Result<ReplicaPlan, readonly Refusal[]> {
  // 1
  const { shape, refusals } = chooseShape(request);
  const wrong = [...refusals, ...checkNames(request, candidates)];
  if (wrong.length > 0) return err(wrong);
  const placing: Placing = { request, shape, policy, units: unitCount(request.model.layerCount) };

  // 2
  const possible = possibleLeaders(request, candidates, policy);
  const leader = possible.leaders[0];
  if (leader === undefined) return err(possible.refusals);
  const bad = unusable(leader, 'leader');
  if (bad !== null) return err([bad]);

  // 3
  if (namedNodes(request) === null) {
    const alone = placeAlone(placing, possible.leaders);
    return alone === null ? placeOnAll(placing, leader, candidates) : ok(toPlan(placing, alone));
  }
  return placeOnNamed(placing, leader, candidates);
}

function placeAlone(placing: Placing, leaders: readonly CandidateNode[]): Attempt | null {
  const attempts = leaders
    .map((node) => attempt(placing, [{ node, weight: 1 }], [placing.units]))
    .filter((alone) => alone.layouts.every((layout) => layout.fits));
  const accelerated = attempts.find((alone) => {
    const cpu = alone.layouts[0]?.cpu.range;
    return cpu !== undefined && cpu.from === cpu.to;
  });
  return accelerated ?? attempts[0] ?? null;
}

function placeOnNamed(
  placing: Placing,
  leader: CandidateNode,
  candidates: readonly CandidateNode[],
): Result<ReplicaPlan, readonly Refusal[]> {
  // 4
  const { request, policy, units } = placing;
  const named = namedNodes(request) ?? [];
  const field = request.weights === null ? 'nodes' : 'weights';
  const nodes = named.flatMap((id) => candidates.find((node) => node.nodeId === id) ?? []);
  const wrong = nodes.flatMap((node) => unusable(node, field) ?? buildMismatch(node, leader, field) ?? []);
  if (wrong.length > 0) return err(wrong);
  if (nodes.length > units) {
    const message = `The model has ${units} layers (the output counts as one) for ${nodes.length} nodes: name fewer nodes.`;
    return err([{ code: 'too_many_stages', field, message }]);
  }

  // 5
  const weight = (node: CandidateNode): number => request.weights?.[node.nodeId] ?? usableBytes(node, policy);
  const members: Member[] = [
    { node: leader, weight: nodes.includes(leader) ? weight(leader) : 0 },
    ...nodes.filter((node) => node !== leader).map((node) => ({ node, weight: weight(node) })),
  ];
  const shared = request.weights === null ? fitByMemory(placing, members) : byWeight(placing, members);
  if (shared === null) return err(noMemory(placing, byWeight(placing, members), []));

  // 6
  const small = members.flatMap((member, index): Refusal[] => {
    if ((shared.counts[index] ?? 0) > 0 || !nodes.includes(member.node)) return [];
    const message =
      `Machine "${member.node.name}" would get less than one of the model's ${units} layers: ` +
      'give it a larger share or leave it out.';
    return [{ code: 'share_too_small', field, nodeId: member.node.nodeId, message }];
  });
  if (small.length > 0) return err(small);
  const devices = devicesOver(shared, field);
  if (devices !== null) return err([devices]);
  if (!shared.layouts.every((layout) => layout.fits)) return err(noMemory(placing, shared, []));
  return ok(toPlan(placing, shared));
}

function placeOnAll(
  placing: Placing,
  leader: CandidateNode,
  candidates: readonly CandidateNode[],
): Result<ReplicaPlan, readonly Refusal[]> {
  // 4
  const { policy, units } = placing;
  const left: Refusal[] = [];
  const others: CandidateNode[] = [];
  for (const node of candidates) {
    if (node === leader) continue;
    const reason = unusable(node, 'nodes') ?? buildMismatch(node, leader, 'nodes');
    if (reason === null) others.push(node);
    else left.push(reason);
  }
  others.sort((a, b) => usableBytes(b, policy) - usableBytes(a, policy) || order(a, b));
  const all = [leader, ...others]
    .slice(0, units)
    .map((node) => ({ node, weight: usableBytes(node, policy) }));

  // 5 and 6. With fewer nodes there are fewer devices: the smallest go first.
  for (let size = all.length; size > 0; size--) {
    const shared = fitByMemory(placing, all.slice(0, size));
    if (shared === null) break;
    if (devicesOver(shared, 'nodes') === null) return ok(toPlan(placing, shared));
  }
  return err(noMemory(placing, byWeight(placing, all), left));
}

function attempt(placing: Placing, members: readonly Member[], counts: readonly number[]): Attempt {
  const { request, shape, policy } = placing;
  const ranges = consecutive(counts);
  const layouts = members.map(({ node }, index) => {
    const range = ranges[index] ?? { from: 0, to: 0 };
    return layOutNode(node, index === 0 ? 'leader' : 'stage', range, request.model, shape, policy);
  });
  return { members, counts, layouts };
}

function byWeight(placing: Placing, members: readonly Member[]): Attempt {
  const weights = members.map((member) => member.weight);
  // Without any memory anywhere the layers still need someone to be refused on.
  const counts = largestRemainder(placing.units, weights) ?? [
    placing.units,
    ...weights.slice(1).map(() => 0),
  ];
  return attempt(placing, members, counts);
}

/** Shares by weight, then takes units from nodes that cannot hold theirs until all fit; null when they never do. */
function fitByMemory(placing: Placing, members: readonly Member[]): Attempt | null {
  const weights = members.map((member) => member.weight);
  const caps = members.map(() => Infinity);
  for (;;) {
    const counts = largestRemainder(placing.units, weights, caps);
    if (counts === null) return null;
    const tried = attempt(placing, members, counts);
    const over = tried.layouts.map((layout) =>
      layout.fits ? 0 : Math.max(1, layout.neededBytes - layout.availableBytes),
    );
    const worst = over.indexOf(Math.max(...over));
    if ((over[worst] ?? 0) === 0) return tried;
    const count = counts[worst] ?? 0;
    if (count === 0) return null;
    caps[worst] = count - 1;
  }
}

function devicesOver({ members, layouts }: Attempt, field: string): Refusal | null {
  const leader = members[0]?.node;
  if (leader === undefined) return null;
  const limit = deviceLimit(leader);
  const used = layouts.reduce((sum, layout, index) => {
    const cpu = index > 0 && layout.cpu.range.to > layout.cpu.range.from ? 1 : 0;
    return sum + layout.accelerators.length + cpu;
  }, 0);
  if (used <= limit) return null;
  const message = `The engine on "${leader.name}" has room for ${limit} devices, this split needs ${used}: name fewer nodes.`;
  return { code: 'too_many_devices', field, message };
}

/** What the model needs and what there is, in all and on each node; then why other nodes do not help. */
function noMemory(placing: Placing, tried: Attempt, left: readonly Refusal[]): Refusal[] {
  const { request, policy } = placing;
  const kept = `${Math.round(policy.headroomFraction * 100)}% of what is free is kept back`;
  const sum = (pick: (layout: NodeLayout) => number): number =>
    tried.layouts.reduce((total, layout) => total + pick(layout), 0);
  const needed = sum((layout) => layout.neededBytes);
  const available = sum((layout) => layout.availableBytes);
  const perNode = tried.layouts.flatMap((layout, index): Refusal[] => {
    const node = tried.members[index]?.node;
    if (node === undefined || layout.fits) return [];
    return [
      {
        code: 'insufficient_memory',
        field: 'model',
        nodeId: node.nodeId,
        message:
          `Machine "${node.name}" would need ${sizeText(layout.neededBytes)} for its ${tried.counts[index] ?? 0} layers ` +
          `and may use ${sizeText(layout.availableBytes)}.`,
        neededBytes: layout.neededBytes,
        availableBytes: layout.availableBytes,
      },
    ];
  });
  const whole: Refusal = {
    code: 'insufficient_memory',
    field: 'model',
    message:
      `"${request.model.name}" needs about ${sizeText(needed)} of memory and ${sizeText(available)} may be used ` +
      `(${kept}): free some, add a node, or ask for a smaller context.`,
    neededBytes: needed,
    availableBytes: available,
  };
  return [whole, ...perNode, ...left];
}

function toPlan(placing: Placing, { members, counts, layouts }: Attempt): ReplicaPlan {
  const { shape, units } = placing;
  const leaderNode = (members[0] as Member).node;
  const own = layouts[0] as NodeLayout;
  const stages = layouts.slice(1).flatMap((layout, index) => {
    const nodeId: NodeId = (members[index + 1] as Member).node.nodeId;
    return [layout.cpu, ...layout.accelerators]
      .filter((share) => share.range.to > share.range.from)
      .map((share) => ({
        nodeId,
        device: share.device,
        layers: share.range.to - share.range.from,
        weightBytes: share.weightBytes,
        estimatedBytes: share.bytes,
      }));
  });
  const cpuLayers = own.cpu.range.to - own.cpu.range.from;
  const engine = engineSplitArguments({
    leaderCpu: cpuLayers,
    leaderDevices: own.accelerators.map((share) => ({
      id: share.device,
      units: share.range.to - share.range.from,
    })),
    stages: stages.map((stage) => ({ units: stage.layers })),
  });
  return {
    contextPerRequest: shape.contextPerRequest,
    parallel: shape.parallel,
    layersTotal: units,
    leader: {
      nodeId: leaderNode.nodeId,
      localLayers: counts[0] ?? 0,
      cpuLayers,
      estimatedBytes: own.neededBytes,
    },
    stages,
    engine,
  };
}
