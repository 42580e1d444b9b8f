import type { EngineObservation } from '#shared/domain/engine.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { observedEngine } from '../state/selectors.ts';
import type { ControllerState, Replica, ReplicaMember } from '../state/state.ts';
import type { Policy } from './policy.ts';

/**
 * Whether a replica is stuck: work is under way, no tunnel byte has moved for `stallMs`, and the process that
 * owes the next answer is stopped or used no CPU in that time. A long prefill uses CPU and is no stall.
 *
 * 1. Nobody waits (no busy slot, no running request): not stalled.
 * 2. A link that was silent long enough, on which the leader spoke last: the stage owes; stuck if it does nothing.
 * 3. All links silent and none owed by a stage: the leader owes; stuck if it does nothing.
 *
 * @param waiting requests that the gateway has sent to this replica and that have not ended
 */
export function findStall(
  state: ControllerState,
  replica: Replica,
  now: number,
  policy: Policy,
  waiting: number,
): ErrorBody | null {
  const leader = observedEngine(state, replica.leader);
  if (!leader || (leader.phase !== 'ready' && leader.phase !== 'loading' && leader.phase !== 'canary'))
    return null;
  const loading = leader.phase !== 'ready';
  // 1. The engine answers no slot query while a batch is stuck, hence "unknown" counts as busy if a client waits.
  const busy = loading || (leader.busySlots === null ? waiting > 0 : leader.busySlots > 0);
  if (!busy) return null;
  const idle = (member: ReplicaMember, engine: EngineObservation | undefined): boolean =>
    engine !== undefined &&
    (engine.suspended || (!loading && stillFor(state, member, now) >= policy.stallMs));
  // 2.
  let owedByStage = false;
  for (const link of leader.links) {
    if (link.idleMs === null || link.idleMs < policy.stallMs) continue;
    if (link.lastSender !== 'leader') continue;
    const stage = replica.stages.find((candidate) => candidate.engineId === link.stageEngineId);
    if (!stage) continue;
    owedByStage = true;
    if (idle(stage, observedEngine(state, stage))) {
      return stalled(state, stage, policy);
    }
  }
  // 3.
  const linksSilent = leader.links.every((link) => link.idleMs === null || link.idleMs >= policy.stallMs);
  if (
    !owedByStage &&
    linksSilent &&
    idle(replica.leader, leader) &&
    stillFor(state, replica.leader, now) >= policy.stallMs
  ) {
    return stalled(state, replica.leader, policy);
  }
  return null;
}

function stillFor(state: ControllerState, member: ReplicaMember, now: number): number {
  const since = state.nodes.get(member.nodeId)?.live.cpuStillSince.get(member.engineId);
  return since === undefined ? 0 : now - since;
}

function stalled(state: ControllerState, member: ReplicaMember, policy: Policy): ErrorBody {
  const name = state.nodes.get(member.nodeId)?.durable.name ?? member.nodeId;
  return {
    code: 'engine_stalled',
    message: `The engine on ${name} made no progress for ${Math.round(policy.stallMs / 1000)} s while a request waited.`,
  };
}
