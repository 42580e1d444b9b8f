import { backoffMs } from '#shared/lib/backoff.ts';
import { boundedErrorBody, type ErrorBody, type ErrorCode } from '#shared/errors.ts';
import type { ControllerEvent } from '../state/events.ts';
import { eligibleNodeIds, leaderServes, observedEngine, replicaMembers } from '../state/selectors.ts';
import type { ControllerState, DeploymentRecord, Replica } from '../state/state.ts';
import type { Policy } from './policy.ts';
import { findStall } from './stall.ts';

/** Ends that come from outside the engine: worth another try. Any other end of a load needs a person. */
const losses: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'stage_lost',
  'stage_unreachable',
  'node_lost',
  'worker_restarted',
  'lease_expired',
  'engine_stalled',
  'engine_crashed',
]);

/**
 * What the observed state means for one replica. The checks run in this order and the first that finds
 * something decides:
 * 1. a member's machine was removed or lost, or its worker has restarted;
 * 2. an engine has ended (the stage that caused it is named before the leader that followed);
 * 3. work is stuck;
 * 4. the stages did not start in time;
 * 5. all stages are ready: the leader may start;
 * 6. the leader is ready for the first time: the replica is.
 */
export function reviewReplica(
  state: ControllerState,
  deployment: DeploymentRecord,
  replica: Replica,
  now: number,
  policy: Policy,
  waiting: number,
): ControllerEvent | null {
  const failure =
    lostMember(state, replica) ??
    endedEngine(state, replica) ??
    findStall(state, replica, now, policy, waiting) ??
    lateStage(state, replica, now, policy);
  if (failure) return replicaFailed(state, deployment, replica, failure, now, policy);
  if (replica.leaderAssignedAt === null) {
    const ready = replica.stages.every((stage) => {
      const engine = observedEngine(state, stage);
      return engine?.phase === 'ready' && engine.endpoint !== null;
    });
    return ready
      ? { type: 'leader-assigned', at: now, deploymentId: deployment.id, epoch: replica.epoch }
      : null;
  }
  if (replica.readyAt === null && leaderServes(state, replica)) {
    return { type: 'replica-ready', at: now, deploymentId: deployment.id, epoch: replica.epoch };
  }
  return null;
}

function lostMember(state: ControllerState, replica: Replica): ErrorBody | null {
  for (const member of replicaMembers(replica)) {
    const node = state.nodes.get(member.nodeId);
    if (!node)
      return { code: 'node_lost', message: 'A machine of this deployment was removed from the covey.' };
    const name = node.durable.name;
    if (node.live.lost) return { code: 'node_lost', message: `${name} stopped answering.` };
    if (node.durable.saidGoodbye) return { code: 'node_lost', message: `${name} stopped lending.` };
    if (node.durable.bootId !== member.bootId) {
      return {
        code: 'worker_restarted',
        message: `The worker on ${name} restarted, and what it had loaded is gone.`,
      };
    }
  }
  return null;
}

function endedEngine(state: ControllerState, replica: Replica): ErrorBody | null {
  const members = [...replica.stages, replica.leader];
  let unexplained: ErrorBody | null = null;
  for (const member of members) {
    const engine = observedEngine(state, member);
    const name = state.nodes.get(member.nodeId)?.durable.name ?? member.nodeId;
    if (engine?.phase === 'failed' || engine?.phase === 'stopped') {
      const error = engine.error ?? {
        code: 'engine_crashed' as const,
        message: `The engine on ${name} ended.`,
      };
      // A cause beats a consequence: `stage_lost` at the leader only says where to look.
      if (error.code !== 'stage_lost') return error;
      unexplained ??= error;
    } else if (!engine && member === replica.leader && replica.readyAt !== null) {
      const node = state.nodes.get(member.nodeId);
      if (node?.live.session) {
        return { code: 'engine_crashed', message: `The engine on ${name} is gone.` };
      }
    }
  }
  return unexplained;
}

function lateStage(state: ControllerState, replica: Replica, now: number, policy: Policy): ErrorBody | null {
  if (replica.leaderAssignedAt !== null || now - replica.placedAt < policy.stageStartMs) return null;
  const late = replica.stages.find((stage) => observedEngine(state, stage)?.phase !== 'ready');
  if (!late) return null;
  const name = state.nodes.get(late.nodeId)?.durable.name ?? late.nodeId;
  return {
    code: 'engine_timeout',
    message: `The engine on ${name} did not start within ${Math.round(policy.stageStartMs / 1000)} s.`,
  };
}

/**
 * The verdict on a failed replica: again after a pause when the cause came from outside and has not come
 * `failureLimit` times within the window (a machine that said goodbye does not count); otherwise failed until a person or the node set changes something.
 */
function replicaFailed(
  state: ControllerState,
  deployment: DeploymentRecord,
  replica: Replica,
  error: ErrorBody,
  now: number,
  policy: Policy,
): ControllerEvent {
  const recent = deployment.failures.filter((failure) => now - failure.at < policy.failureWindowMs).length;
  const loss = losses.has(error.code);
  const left = error.code === 'node_lost' && saidGoodbye(state, replica);
  const again = left || (loss && recent + 1 < policy.failureLimit);
  const minutes = Math.round(policy.failureWindowMs / 60_000);
  const verdict =
    loss && !again
      ? ` That was loss ${recent + 1} within ${minutes} minutes, so it is not loaded again by itself: try again ("covey retry"), or add a machine.`
      : '';
  return {
    type: 'replica-failed',
    at: now,
    deploymentId: deployment.id,
    epoch: replica.epoch,
    error: boundedErrorBody(
      verdict ? { ...error, message: error.message.replace(/[^.!?]$/, '$&.') + verdict } : error,
    ),
    nextAttemptAt: again ? now + backoffMs(policy.retry, recent, 0) : null,
    failedWith: eligibleNodeIds(state),
    ...(left ? { left } : {}),
  };
}

function saidGoodbye(state: ControllerState, replica: Replica): boolean {
  return replicaMembers(replica).some(
    (member) => state.nodes.get(member.nodeId)?.durable.saidGoodbye === true,
  );
}
