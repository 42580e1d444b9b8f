import type { NodeId } from '#shared/lib/ids.ts';
import type { Shape } from './estimate.ts';
import { usableBytes } from './node-layout.ts';
import type { CandidateNode, PlacementPolicy, PlanRequest, Refusal } from './types.ts';

const DEFAULT_CONTEXT = 4096;
const DEFAULT_PARALLEL = 4;
const MIN_CONTEXT = 16;
const MAX_PARALLEL = 64;

/** Context and parallelism with their defaults, and what is wrong with those asked for. */
export function chooseShape(request: PlanRequest): { shape: Shape; refusals: Refusal[] } {
  const { contextPerRequest, parallel } = request;
  const trained = request.model.contextLength;
  const refusals: Refusal[] = [];
  const refuse = (code: Refusal['code'], field: string, message: string): void => {
    refusals.push({ code, field, message });
  };
  if (
    contextPerRequest !== null &&
    !(Number.isSafeInteger(contextPerRequest) && contextPerRequest >= MIN_CONTEXT)
  ) {
    const message = `The context must be a whole number of at least ${MIN_CONTEXT} tokens, got ${contextPerRequest}.`;
    refuse('context_invalid', 'contextPerRequest', message);
  } else if (contextPerRequest !== null && trained > 0 && contextPerRequest > trained) {
    const message = `The model was trained for ${trained} tokens of context, ${contextPerRequest} were asked for.`;
    refuse('context_invalid', 'contextPerRequest', message);
  }
  if (parallel !== null && !(Number.isSafeInteger(parallel) && parallel >= 1 && parallel <= MAX_PARALLEL)) {
    const message = `The number of parallel requests must be from 1 to ${MAX_PARALLEL}, got ${parallel}.`;
    refuse('parallel_invalid', 'parallel', message);
  }
  const usual = trained > 0 ? Math.min(trained, DEFAULT_CONTEXT) : DEFAULT_CONTEXT;
  return {
    shape: { contextPerRequest: contextPerRequest ?? usual, parallel: parallel ?? DEFAULT_PARALLEL },
    refusals,
  };
}

/** What is wrong with the names and weights themselves, whatever state the nodes are in. */
export function checkNames(request: PlanRequest, candidates: readonly CandidateNode[]): Refusal[] {
  const refusals: Refusal[] = [];
  const byId = new Map(candidates.map((node) => [node.nodeId, node]));
  const name = (id: NodeId): string => byId.get(id)?.name ?? id;
  const existing = candidates.map((node) => node.name).join(', ') || 'none';
  const unknown = (ids: readonly NodeId[], field: string): void => {
    for (const nodeId of ids) {
      if (byId.has(nodeId)) continue;
      const message = `There is no node ${nodeId}; the nodes are: ${existing}.`;
      refusals.push({ code: 'node_unknown', field, nodeId, message });
    }
  };
  const nodes = request.nodes ?? [];
  const weighed = Object.keys(request.weights ?? {}) as NodeId[];
  unknown(nodes, 'nodes');
  unknown(weighed, 'weights');
  if (request.leader !== null) unknown([request.leader], 'leader');

  for (const nodeId of nodes.filter((id, index) => nodes.indexOf(id) !== index)) {
    refusals.push({
      code: 'node_repeated',
      field: 'nodes',
      nodeId,
      message: `Machine "${name(nodeId)}" is named twice.`,
    });
  }
  if (request.nodes?.length === 0) {
    refusals.push({ code: 'no_nodes', field: 'nodes', message: 'The list of nodes is empty.' });
  }
  if (request.weights !== null && weighed.length === 0) {
    refusals.push({ code: 'no_nodes', field: 'weights', message: 'The split names no node.' });
  }
  for (const nodeId of weighed) {
    const weight = request.weights?.[nodeId] ?? Number.NaN;
    if (Number.isFinite(weight) && weight > 0) continue;
    const message = `The share of "${name(nodeId)}" must be a number above 0, got ${weight}; leave a node out to give it nothing.`;
    refusals.push({ code: 'weight_invalid', field: 'weights', nodeId, message });
  }
  if (request.nodes !== null && request.weights !== null) {
    for (const nodeId of weighed.filter((id) => !nodes.includes(id))) {
      const message = `"${name(nodeId)}" has a share, but is not among the nodes.`;
      refusals.push({ code: 'weight_invalid', field: 'weights', nodeId, message });
    }
    for (const nodeId of nodes.filter((id) => !weighed.includes(id) && id !== request.leader)) {
      const message = `"${name(nodeId)}" is among the nodes, but has no share.`;
      refusals.push({ code: 'weight_invalid', field: 'weights', nodeId, message });
    }
  }
  return refusals;
}

/** The nodes the request names, without the leader if it only leads; null when it names none. */
export function namedNodes(request: PlanRequest): readonly NodeId[] | null {
  return request.weights !== null ? (Object.keys(request.weights) as NodeId[]) : request.nodes;
}

/** Why a node cannot take part although the request names it. */
export function unusable(node: CandidateNode, field: string): Refusal | null {
  if (node.ineligibleReasons.length > 0) {
    const message = `Machine "${node.name}" cannot be used: it ${node.ineligibleReasons.join(', and it ')}.`;
    return { code: 'node_not_eligible', field, nodeId: node.nodeId, message };
  }
  if (node.engineBuildId === null) {
    const message = `Machine "${node.name}" has no usable engine.`;
    return { code: 'engine_missing', field, nodeId: node.nodeId, message };
  }
  return null;
}

export function buildMismatch(node: CandidateNode, leader: CandidateNode, field: string): Refusal | null {
  if (node.engineBuildId === leader.engineBuildId) return null;
  const message =
    `Machine "${node.name}" runs engine ${node.engineBuildId}, the leader "${leader.name}" runs ` +
    `${leader.engineBuildId}: install the same version of Covey on both.`;
  return { code: 'engine_build_mismatch', field, nodeId: node.nodeId, message };
}

/**
 * The nodes that may lead, best first. The leader must hold the file.
 *
 * 1. The one asked for, and no other.
 * 2. Else of the named nodes those that hold the file: the largest share first, or the most memory.
 * 3. Else of all usable nodes those that hold the file: the most memory first.
 */
export function possibleLeaders(
  request: PlanRequest,
  candidates: readonly CandidateNode[],
  policy: PlacementPolicy,
): { leaders: CandidateNode[]; refusals: Refusal[] } {
  const holders = candidates.filter((node) => node.holdsModel);
  const held = holders.map((node) => `"${node.name}"`).join(', ');
  const advice = held === '' ? 'no node holds it: import or download it on one first' : `it is on ${held}`;
  if (request.leader !== null) {
    const leader = candidates.find((node) => node.nodeId === request.leader);
    if (leader === undefined) return { leaders: [], refusals: [] };
    if (!leader.holdsModel) {
      const message = `"${leader.name}" cannot lead, it does not hold the model; ${advice}.`;
      return {
        leaders: [],
        refusals: [{ code: 'model_not_held', field: 'leader', nodeId: leader.nodeId, message }],
      };
    }
    return { leaders: [leader], refusals: [] };
  }
  const named = namedNodes(request);
  const pool = named === null ? candidates : candidates.filter((node) => named.includes(node.nodeId));
  const rank = (node: CandidateNode): number => request.weights?.[node.nodeId] ?? usableBytes(node, policy);
  const leaders = pool
    .filter((node) => node.holdsModel && unusable(node, 'nodes') === null)
    .sort((a, b) => rank(b) - rank(a) || usableBytes(b, policy) - usableBytes(a, policy) || order(a, b));
  if (leaders.length > 0) return { leaders, refusals: [] };

  const reasons = pool.filter((node) => node.holdsModel).flatMap((node) => unusable(node, 'nodes') ?? []);
  if (reasons.length > 0) return { leaders, refusals: reasons };
  const who = named === null ? 'The leader must hold the model' : 'None of the named nodes holds the model';
  return {
    leaders,
    refusals: [
      { code: 'model_not_held', field: named === null ? 'model' : 'nodes', message: `${who}; ${advice}.` },
    ],
  };
}

/** A stable order for nodes that are otherwise equal. */
export function order(a: CandidateNode, b: CandidateNode): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : a.nodeId < b.nodeId ? -1 : 1;
}
