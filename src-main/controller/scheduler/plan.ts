import type { DeploymentId } from '#shared/lib/ids.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { ControllerEvent } from '../state/events.ts';
import { hasTasks } from '../state/job-selectors.ts';
import {
  deploymentsOn,
  eligibleNodeIds,
  observedEngine,
  remainingEngines,
  replicaMembers,
} from '../state/selectors.ts';
import type { ControllerState, DeploymentRecord, NodeRecord, Replica } from '../state/state.ts';
import { sinceBy, type Leap } from './jobs/elapsed.ts';
import { planJobs } from './jobs/plan-jobs.ts';
import { placeDeployment } from './placing.ts';
import type { Policy } from './policy.ts';
import { reviewReplica } from './replica-health.ts';

export interface PlanInput {
  readonly now: number;
  /**
   * Until when the controller has certainly listened. After a stall of its own this lags behind `now`, so that
   * frames which waited in the socket meanwhile are read before their senders are judged silent.
   */
  readonly listenedUntil: number;
  readonly policy: Policy;
  /**
   * What to plan of jobs: nothing, what follows from facts, or also what only time changes (about once a second).
   * Nothing is for turns that hardly ever change anything for jobs, such as those of heartbeats.
   */
  readonly jobs: 'nothing' | 'facts' | 'time';
  /** Of the clock, the oldest first; absent: none. */
  readonly leaps?: readonly Leap[];
  /** Requests that the gateway has under way, by deployment. */
  readonly running: ReadonlyMap<DeploymentId, number>;
}

/**
 * What follows from the state now, as facts to record. Pure; the runtime loop applies them and asks again
 * until nothing follows.
 * 1. A node that was silent for `lostMs` is lost.
 * 2. A deployment nobody wants is removed once its engines are gone.
 * 3. A replica on a node that is draining, or that gives way to its owner, finishes what runs and is released, by
 *    the deadline of that at the latest; at once when an engine has given way already.
 * 4. A replica is reviewed (`reviewReplica`).
 * 5. A waiting deployment is placed, or says why not; a failed one tries again when other nodes can work.
 * 6. Jobs get what follows for them (`planJobs`).
 * 7. A drain is complete when nothing is left on its node, and so has given way who is held back.
 */
export function plan(state: ControllerState, input: PlanInput): ControllerEvent[] {
  const { now, policy } = input;
  const events: ControllerEvent[] = [];
  // 1.
  for (const node of state.nodes.values()) {
    if (
      !node.live.lost &&
      !node.durable.saidGoodbye &&
      input.listenedUntil - node.live.heardAt >= policy.lostMs
    ) {
      events.push({ type: 'node-lost', at: now, nodeId: node.durable.id });
    }
  }
  // Loss changes everything below; decide the rest on the state that has it.
  if (events.length > 0) return events;
  for (const deployment of state.deployments.values()) {
    const event = planDeployment(state, deployment, input);
    if (event) events.push(event);
  }
  // 6.
  if (input.jobs !== 'nothing') {
    const review = input.jobs === 'time';
    const since = sinceBy(now, input.leaps ?? []);
    events.push(...planJobs(state, { now, since, policy: policy.jobs, giveWayMs: policy.giveWayMs, review }));
  }
  // 7.
  for (const node of state.nodes.values()) {
    const drain = node.durable.drain;
    if (drain && drain.completedAt === null && isEmpty(state, node)) {
      events.push({ type: 'drain-completed', at: now, nodeId: node.durable.id });
    }
    const { heldBackSince, clearedAt } = node.live;
    if (heldBackSince !== null && clearedAt === null && isEmpty(state, node)) {
      events.push({ type: 'node-cleared', at: now, nodeId: node.durable.id });
    }
  }
  return events;
}

function planDeployment(
  state: ControllerState,
  deployment: DeploymentRecord,
  input: PlanInput,
): ControllerEvent | null {
  const { now, policy } = input;
  const waiting = input.running.get(deployment.id) ?? 0;
  // 2.
  if (!deployment.wanted) {
    return remainingEngines(state, deployment.id).length === 0
      ? { type: 'deployment-removed', at: now, deploymentId: deployment.id }
      : null;
  }
  const replica = deployment.replica;
  if (replica) {
    // 3.
    const departure = earliestDeparture(state, replica, policy);
    if (departure) {
      const { reason, deadlineAt } = departure;
      if (waiting === 0 || now >= deadlineAt || replica.readyAt === null) {
        return {
          type: 'replica-released',
          at: now,
          deploymentId: deployment.id,
          epoch: replica.epoch,
          reason,
        };
      }
      if (deployment.phase !== 'draining') {
        return {
          type: 'replica-draining',
          at: now,
          deploymentId: deployment.id,
          epoch: replica.epoch,
          reason,
        };
      }
    } else if (deployment.phase === 'draining') {
      return { type: 'drain-cancelled', at: now, deploymentId: deployment.id, epoch: replica.epoch };
    }
    // 4.
    return reviewReplica(state, deployment, replica, now, policy, waiting);
  }
  // 5.
  if (deployment.phase === 'failed') {
    const gained = eligibleNodeIds(state).some((id) => !deployment.failedWith.includes(id));
    return gained
      ? { type: 'retry-requested', at: now, deploymentId: deployment.id, cause: 'nodes-changed' }
      : null;
  }
  return placeDeployment(state, deployment, now, policy);
}

interface Departure {
  readonly deadlineAt: number;
  readonly reason: ErrorBody;
}

/** Why a replica has to leave a machine, and by when: the first that it has to leave. */
function earliestDeparture(state: ControllerState, replica: Replica, policy: Policy): Departure | null {
  let earliest: Departure | null = null;
  for (const member of replicaMembers(replica)) {
    const node = state.nodes.get(member.nodeId);
    if (!node) continue;
    for (const departure of departures(node, observedEngine(state, member), policy)) {
      if (!earliest || departure.deadlineAt < earliest.deadlineAt) earliest = departure;
    }
  }
  return earliest;
}

function departures(
  { durable, live }: NodeRecord,
  engine: EngineObservation | undefined,
  policy: Policy,
): Departure[] {
  const { drain, name } = durable;
  const found: Departure[] = [];
  if (drain) {
    const reason = { code: 'node_draining' as const, message: `${name} is draining.` };
    found.push({ deadlineAt: drain.deadlineAt, reason });
  }
  const gaveWay = { code: 'node_gave_way' as const, message: `${name} gives way to its owner.` };
  if (live.modelsHeldBackSince !== null) {
    found.push({ deadlineAt: live.modelsHeldBackSince + policy.giveWayMs, reason: gaveWay });
  }
  if (engine?.error?.code === 'node_gave_way') found.push({ deadlineAt: -Infinity, reason: gaveWay });
  return found;
}

function isEmpty(state: ControllerState, node: NodeRecord): boolean {
  const { id } = node.durable;
  return node.live.engines.size === 0 && deploymentsOn(state, id).length === 0 && !hasTasks(state.jobs, id);
}
