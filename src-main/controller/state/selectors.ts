import type { DeploymentId, EngineId, NodeId } from '#shared/lib/ids.ts';
import type { NodeStatus } from '#shared/domain/node.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { DeploymentStatus } from '#shared/domain/deployment.ts';
import { hasTasks } from './job-selectors.ts';
import type { ControllerState, DeploymentRecord, NodeRecord, Replica, ReplicaMember } from './state.ts';

/** Status for people; whether a node may get work is `ineligibleReasons`. */
export function nodeStatus(state: ControllerState, node: NodeRecord): NodeStatus {
  const { durable, live } = node;
  if (live.session === null) {
    if (durable.saidGoodbye) return 'offline';
    return live.lost || durable.bootId === null ? 'lost' : 'unhealthy';
  }
  if (durable.drain) return 'draining';
  if (ineligibleChecks(node).length > 0) return 'unhealthy';
  if (ownersWishes(node).length > 0) return 'paused';
  const works = deploymentsOn(state, durable.id).length > 0 || hasTasks(state.jobs, durable.id);
  return works ? 'busy' : 'ready';
}

/** Why this node gets no new work now; empty when it may. Each is a sentence without its subject. */
export function ineligibleReasons(node: NodeRecord): string[] {
  return reasons(node, (one) => [...modelsWish(one), ...ineligibleChecks(one)]);
}

function reasons(node: NodeRecord, checks: (node: NodeRecord) => string[]): string[] {
  const { durable, live } = node;
  if (live.session === null) {
    if (durable.saidGoodbye) return ['is switched off or has stopped lending'];
    return [live.lost ? 'does not answer' : 'is not connected'];
  }
  const drain = durable.drain && (durable.drain.completedAt === null ? 'is draining' : 'is drained');
  return [...(drain === null ? [] : [drain]), ...ownersWishes(node), ...checks(node)];
}

/** Why it gets no task of a job; as for models, but that needs no engine. */
export function idleReasons(node: NodeRecord): string[] {
  // The worker names a missing engine among its problems too.
  return reasons(node, ({ durable, live }) =>
    live.problems.filter((problem) => problem !== durable.facts?.engineProblem),
  );
}

/** Why the people whose machine it is, or who look after the covey, want no new work there. */
function ownersWishes({ durable, live }: NodeRecord): string[] {
  const wishes = durable.pausedAt === null ? [] : ['is paused'];
  if (live.lend?.lending !== false) return wishes;
  const why = live.lend.heldBackBy.map(({ message }) => message.replace(/\.$/, '')).join('; ');
  return [...wishes, why ? `is not lent now (${why})` : 'is not lent now'];
}

/** A machine that is lent for other work. */
function modelsWish({ live }: NodeRecord): string[] {
  return live.lend?.lending && live.lend.noModels ? ['lets no models run on it'] : [];
}

function ineligibleChecks({ durable, live }: NodeRecord): string[] {
  const problem = durable.facts?.engineBuildId ? [] : [durable.facts?.engineProblem ?? 'has no engine'];
  return [...problem, ...live.problems];
}

export function isEligible(node: NodeRecord): boolean {
  return ineligibleReasons(node).length === 0;
}

export function eligibleNodeIds(state: ControllerState): NodeId[] {
  return [...state.nodes.values()].filter(isEligible).map((node) => node.durable.id);
}

/** Every engine of a replica with its place, leader first. */
export function replicaMembers(replica: Replica): ReplicaMember[] {
  return [replica.leader, ...replica.stages];
}

export function deploymentsOn(state: ControllerState, nodeId: NodeId): DeploymentRecord[] {
  return [...state.deployments.values()].filter(
    (deployment) =>
      deployment.replica && replicaMembers(deployment.replica).some((member) => member.nodeId === nodeId),
  );
}

export function observedEngine(state: ControllerState, member: ReplicaMember): EngineObservation | undefined {
  return state.nodes.get(member.nodeId)?.live.engines.get(member.engineId);
}

/** Engines of a deployment that connected nodes still report, of any epoch. */
export function remainingEngines(
  state: ControllerState,
  id: DeploymentId,
): { nodeId: NodeId; engineId: EngineId }[] {
  const remaining: { nodeId: NodeId; engineId: EngineId }[] = [];
  for (const node of state.nodes.values()) {
    if (node.live.session === null) continue;
    for (const engine of node.live.engines.values()) {
      if (engine.deploymentId === id) remaining.push({ nodeId: node.durable.id, engineId: engine.engineId });
    }
  }
  return remaining;
}

/** The leader is connected and reports its engine ready: requests may go there. */
export function leaderServes(state: ControllerState, replica: Replica): boolean {
  const node = state.nodes.get(replica.leader.nodeId);
  if (!node?.live.session || node.durable.bootId !== replica.leader.bootId) return false;
  return observedEngine(state, replica.leader)?.phase === 'ready';
}

export function deploymentStatus(state: ControllerState, deployment: DeploymentRecord): DeploymentStatus {
  if (deployment.phase === 'ready' && deployment.replica && !leaderServes(state, deployment.replica))
    return 'recovering';
  return deployment.phase;
}

/** What people call a machine, also one that was removed. */
export function nodeName({ nodes, removedNodes }: ControllerState, id: NodeId): string {
  return nodes.get(id)?.durable.name ?? removedNodes.get(id)?.name ?? id.slice(0, 12);
}
