import type { LoadBody } from '#shared/api/schema.ts';
import type { Preview } from '#shared/api/dashboard.ts';
import type { NodeId } from '#shared/lib/ids.ts';

/** What the load dialog holds. */
export interface LoadChoice {
  readonly model: string;
  /** Machines that take part, in the order of the strip: the leader first. */
  readonly nodes: readonly NodeId[];
  /** Layers of each of `nodes` when a person has set them; null: shared out by memory. */
  readonly layers: readonly number[] | null;
  readonly leader: NodeId | null;
  readonly contextPerRequest: number | null;
  readonly parallel: number | null;
  readonly name: string;
}

/**
 * The body of `POST /api/deployments` and its preview. A machine without layers is left out of the shares; the
 * leader is then named on its own.
 */
export function loadBody(choice: LoadChoice): LoadBody {
  const { nodes, layers } = choice;
  const name = choice.name.trim();
  const body: LoadBody = { model: choice.model };
  if (layers !== null && nodes.length > 1) {
    const shares = nodes.flatMap((id, index): [NodeId, number][] => {
      const count = layers[index] ?? 0;
      return count > 0 ? [[id, count]] : [];
    });
    body.split = Object.fromEntries(shares);
  } else if (nodes.length > 0) {
    body.nodes = [...nodes];
  }
  const leader = layers === null ? choice.leader : (choice.leader ?? nodes[0] ?? null);
  if (leader !== null) body.leader = leader;
  if (choice.contextPerRequest !== null) body.contextPerRequest = choice.contextPerRequest;
  if (choice.parallel !== null) body.parallel = choice.parallel;
  if (name !== '') body.name = name;
  return body;
}

/** Layers by machine as a preview has them, leader first; a machine with several devices counts once. */
export function layersByNode(preview: Preview): { nodeId: NodeId; layers: number }[] {
  const byNode = new Map<NodeId, number>();
  const ordered = [...preview.stages].sort(
    (a, b) => Number(b.role === 'leader') - Number(a.role === 'leader'),
  );
  for (const stage of ordered) byNode.set(stage.nodeId, (byNode.get(stage.nodeId) ?? 0) + stage.layers);
  return [...byNode].map(([nodeId, layers]) => ({ nodeId, layers }));
}

/** Memory of one machine that a load needs and may have. */
export interface MachineMemory {
  readonly nodeId: NodeId;
  readonly neededBytes: number;
  readonly availableBytes: number;
  readonly leads: boolean;
  /** By device; empty when only a refusal tells the figures. */
  readonly devices: readonly {
    device: string;
    layers: number;
    neededBytes: number;
    availableBytes: number;
  }[];
}

/** From the stages of a preview and, where it was refused, from the reasons that name a machine. */
export function memoryByNode(preview: Preview): Map<NodeId, MachineMemory> {
  const result = new Map<NodeId, MachineMemory>();
  for (const stage of preview.stages) {
    const known = result.get(stage.nodeId);
    const { device, layers, neededBytes, availableBytes } = stage;
    result.set(stage.nodeId, {
      nodeId: stage.nodeId,
      neededBytes: (known?.neededBytes ?? 0) + neededBytes,
      availableBytes: (known?.availableBytes ?? 0) + availableBytes,
      leads: (known?.leads ?? false) || stage.role === 'leader',
      devices: [...(known?.devices ?? []), { device, layers, neededBytes, availableBytes }],
    });
  }
  for (const reason of preview.error?.reasons ?? []) {
    if (reason.nodeId === undefined || reason.neededBytes === undefined) continue;
    const nodeId = reason.nodeId as NodeId;
    if (result.has(nodeId)) continue;
    const { neededBytes, availableBytes = 0 } = reason;
    result.set(nodeId, { nodeId, neededBytes, availableBytes, leads: false, devices: [] });
  }
  return result;
}

/** What a bar shows: the share of the available that is needed, 0..1, and whether it fits. */
export function fill(memory: Pick<MachineMemory, 'neededBytes' | 'availableBytes'>): {
  used: number;
  fits: boolean;
} {
  const { neededBytes, availableBytes } = memory;
  const fits = neededBytes <= availableBytes;
  if (availableBytes <= 0) return { used: neededBytes > 0 ? 1 : 0, fits };
  return { used: Math.min(1, neededBytes / availableBytes), fits };
}

/** Why a preview was refused, one sentence each, without repeating the headline. */
export function refusalSentences(preview: Preview): string[] {
  const { error } = preview;
  if (error === null) return [];
  const reasons = (error.reasons ?? []).map((reason) => reason.message);
  return [...new Set(reasons.length > 0 ? reasons : [error.message])];
}
