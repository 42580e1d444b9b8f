import { engineId, type NodeId } from '#shared/lib/ids.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { planReplica } from '../placement/plan-replica.ts';
import type { CandidateNode, PlanRequest, ReplicaPlan } from '../placement/types.ts';
import type { ControllerEvent } from '../state/events.ts';
import { ineligibleReasons, observedEngine, remainingEngines, replicaMembers } from '../state/selectors.ts';
import type { ControllerState, DeploymentRecord, NodeRecord, Replica } from '../state/state.ts';
import type { Policy } from './policy.ts';

/** The part of a deployment that a placement depends on; a load that is only being considered has it too. */
export type Placeable = Pick<DeploymentRecord, 'info' | 'files' | 'request'>;

export type PlacingResult = { ok: true; plan: ReplicaPlan } | { ok: false; error: ErrorBody };

/** Plans a replica with the nodes as they are now. */
export function planPlacement(state: ControllerState, placeable: Placeable, policy: Policy): PlacingResult {
  const result = planReplica(planRequest(placeable), candidates(state, placeable), policy);
  if (result.ok) return { ok: true, plan: result.value };
  const reasons = result.error;
  const [first] = reasons;
  return {
    ok: false,
    error: {
      code: 'placement_refused',
      message: first ? first.message : 'The model cannot be placed.',
      ...(first?.field === undefined ? {} : { field: first.field }),
      reasons,
    },
  };
}

/**
 * The split that would be made if the memory that `refusal` misses were there, for people to see where it is
 * missing: every node is taken for a million times as large. null: something else is missing.
 */
export function planRegardlessOfMemory(
  state: ControllerState,
  placeable: Placeable,
  refusal: ErrorBody,
  policy: Policy,
): ReplicaPlan | null {
  if (!refusal.reasons?.some((reason) => reason.code === 'insufficient_memory')) return null;
  const grow = (bytes: number): number => (bytes + 1) * 1e6;
  const grown = candidates(state, placeable).map((node) => ({
    ...node,
    ramAvailableBytes: grow(node.ramAvailableBytes),
    devices: node.devices.map((device) => ({ ...device, freeBytes: grow(device.freeBytes) })),
  }));
  const request = planRequest(placeable);
  // Named by nobody, all together were too small: not the one that would hold it all if it were larger.
  const usable = grown.filter((node) => node.ineligibleReasons.length === 0 && node.engineBuildId !== null);
  const nodes = request.nodes ?? (request.weights ? null : usable.map((node) => node.nodeId));
  const result = planReplica({ ...request, nodes }, grown, policy);
  return result.ok ? result.value : null;
}

/** Bytes that a plan may use now on these devices of a node; `CPU` is its RAM. */
export function availableTo(
  state: ControllerState,
  nodeId: NodeId,
  devices: readonly string[],
  policy: Policy,
): number {
  const node = state.nodes.get(nodeId);
  if (!node) return 0;
  const { ramAvailableBytes, devices: all } = candidate(state, node, false);
  const free = devices.map((id) => {
    const device = all.find((other) => other.id === id);
    return device?.kind === 'gpu' ? device.freeBytes : ramAvailableBytes;
  });
  return free.reduce((sum, bytes) => sum + Math.floor(bytes * (1 - policy.headroomFraction)), 0);
}

function planRequest({ info, request }: Placeable): PlanRequest {
  return {
    model: info,
    nodes: request.nodes,
    weights: request.weights,
    leader: request.leader,
    contextPerRequest: request.contextPerRequest,
    parallel: request.parallel,
  };
}

function candidates(state: ControllerState, { files }: Placeable): CandidateNode[] {
  return [...state.nodes.values()].map((node) => candidate(state, node, files.has(node.durable.id)));
}

function candidate(state: ControllerState, node: NodeRecord, holdsModel: boolean): CandidateNode {
  const { durable, live } = node;
  const hardware = durable.facts?.hardware;
  const freeById = new Map(live.telemetry?.deviceFree.map((device) => [device.id, device.freeBytes]));
  const devices = hardware?.devices.known ? hardware.devices.value : [];
  return {
    nodeId: durable.id,
    name: durable.name,
    ineligibleReasons: ineligibleReasons(node),
    ramAvailableBytes: Math.max(
      0,
      (live.telemetry?.ramAvailableBytes ?? 0) - promisedBytes(state, durable.id),
    ),
    ramTotalBytes: live.telemetry?.ramTotalBytes ?? 0,
    devices: devices.map((device) => ({ ...device, freeBytes: freeById.get(device.id) ?? device.freeBytes })),
    holdsModel,
    engineBuildId: durable.facts?.engineBuildId ?? null,
  };
}

/** Memory that placed engines will still take: their estimate less what they already hold. */
function promisedBytes(state: ControllerState, nodeId: NodeId): number {
  let promised = 0;
  for (const deployment of state.deployments.values()) {
    const replica = deployment.replica;
    if (!replica || replica.readyAt !== null) continue;
    for (const member of replicaMembers(replica)) {
      if (member.nodeId !== nodeId) continue;
      const estimate =
        'estimatedBytes' in member ? (member.estimatedBytes as number) : replica.plan.leader.estimatedBytes;
      promised += Math.max(0, estimate - (observedEngine(state, member)?.rssBytes ?? 0));
    }
  }
  return promised;
}

/**
 * Places a waiting deployment whose time has come, or says why it still waits. Engines of an earlier replica
 * that connected nodes still report are waited for, so that their memory counts as free.
 */
export function placeDeployment(
  state: ControllerState,
  deployment: DeploymentRecord,
  now: number,
  policy: Policy,
): ControllerEvent | null {
  if (deployment.nextAttemptAt !== null && now < deployment.nextAttemptAt) return null;
  if (remainingEngines(state, deployment.id).length > 0) return null;
  const placing = planPlacement(state, deployment, policy);
  if (!placing.ok) {
    const same = deployment.reason?.message === placing.error.message;
    return same
      ? null
      : { type: 'deployment-waited', at: now, deploymentId: deployment.id, reason: placing.error };
  }
  return {
    type: 'replica-placed',
    at: now,
    deploymentId: deployment.id,
    replica: newReplica(state, deployment, placing.plan, now),
  };
}

export function newReplica(
  state: ControllerState,
  deployment: Pick<DeploymentRecord, 'id' | 'epoch'>,
  plan: ReplicaPlan,
  now: number,
): Replica {
  const epoch = deployment.epoch + 1;
  const bootIdOf = (nodeId: NodeId): Replica['leader']['bootId'] => {
    const bootId = state.nodes.get(nodeId)?.durable.bootId;
    if (!bootId) throw new Error(`planned node ${nodeId} has never said hello`);
    return bootId;
  };
  return {
    epoch,
    plan,
    leader: {
      nodeId: plan.leader.nodeId,
      engineId: engineId(deployment.id, epoch, 0),
      bootId: bootIdOf(plan.leader.nodeId),
    },
    stages: plan.stages.map((stage, index) => ({
      nodeId: stage.nodeId,
      engineId: engineId(deployment.id, epoch, index + 1),
      bootId: bootIdOf(stage.nodeId),
      device: stage.device,
      layers: stage.layers,
      estimatedBytes: stage.estimatedBytes,
    })),
    placedAt: now,
    leaderAssignedAt: null,
    readyAt: null,
  };
}
