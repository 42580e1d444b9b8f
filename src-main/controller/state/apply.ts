import type { DeploymentId, EngineId, NodeId } from '#shared/lib/ids.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { LendState } from '#shared/domain/lend.ts';
import { timings } from '#shared/config.ts';
import { applyJobs } from './apply-jobs.ts';
import { nodeName } from './selectors.ts';
import type { ControllerEvent } from './events.ts';
import {
  absentNode,
  type ControllerState,
  type DeploymentRecord,
  type DurableNode,
  type LiveNode,
  type NodeRecord,
} from './state.ts';

/**
 * The next state. Total: an event about something that is not there, or about an epoch that is over, changes
 * nothing and returns the same object.
 */
export function apply(state: ControllerState, event: ControllerEvent): ControllerState {
  switch (event.type) {
    case 'node-joined': {
      const known = state.nodes.get(event.nodeId);
      const removedNodes = without(state.removedNodes, event.nodeId);
      if (known) return { ...setDurable(state, known, { name: event.name }), removedNodes };
      const durable: DurableNode = {
        id: event.nodeId,
        name: event.name,
        joinedAt: event.at,
        drain: null,
        pausedAt: null,
        bootId: null,
        facts: null,
        saidGoodbye: false,
        lastContactAt: null,
      };
      return {
        ...state,
        removedNodes,
        nodes: withEntry(state.nodes, event.nodeId, { durable, live: absentNode(event.at) }),
      };
    }
    case 'node-renamed':
      return onDurable(state, event.nodeId, () => ({ name: event.name }));
    case 'node-removed': {
      const node = state.nodes.get(event.nodeId);
      if (!node) return state;
      return {
        ...state,
        nodes: without(state.nodes, event.nodeId),
        removedNodes: withEntry(state.removedNodes, event.nodeId, {
          id: event.nodeId,
          name: node.durable.name,
          removedAt: event.at,
        }),
      };
    }
    case 'session-opened':
      return onNode(state, event.nodeId, (node) => ({
        durable: {
          ...node.durable,
          bootId: event.bootId,
          facts: event.facts,
          saidGoodbye: false,
          lastContactAt: event.at,
        },
        live: {
          ...absentNode(event.at),
          session: { id: event.sessionId, remoteAddress: event.remoteAddress, openedAt: event.at },
          telemetry: event.telemetry,
          compute: event.compute,
          ...heldBack(node.live, event.lend, event.at),
          ...observe(node.live, event.engines, event.at),
        },
      }));
    case 'session-closed':
      return onNode(state, event.nodeId, (node) =>
        node.live.session?.id !== event.sessionId
          ? node
          : {
              durable: { ...node.durable, saidGoodbye: event.goodbye, lastContactAt: event.at },
              live: { ...node.live, session: null },
            },
      );
    case 'heartbeat-received':
      return onLive(state, event.nodeId, (live) => ({
        heardAt: event.at,
        telemetry: event.telemetry,
        problems: event.problems,
        rulesAt: live.lend?.noModels === event.lend?.noModels ? live.rulesAt : event.at,
        ...heldBack(live, event.lend, event.at),
      }));
    case 'engines-observed':
      return onLive(state, event.nodeId, (live) => ({
        heardAt: event.at,
        ...observe(live, event.engines, event.at),
      }));
    case 'hardware-observed':
      return onNode(state, event.nodeId, (node) =>
        node.durable.facts
          ? {
              durable: {
                ...node.durable,
                facts: { ...node.durable.facts, hardware: event.hardware, addresses: event.addresses },
              },
              live: { ...node.live, heardAt: event.at },
            }
          : node,
      );
    case 'compute-observed':
      return onLive(state, event.nodeId, () => ({
        heardAt: event.at,
        compute: event.compute,
        rulesAt: event.at,
      }));
    case 'node-lost':
      return onLive(state, event.nodeId, () => ({
        lost: true,
        session: null,
        engines: new Map(),
        cpuStillSince: new Map(),
      }));
    case 'node-cleared':
      return onLive(state, event.nodeId, ({ heldBackSince }) => ({
        clearedAt: heldBackSince === null ? null : event.at,
      }));
    case 'noted':
      return state;
    case 'drain-started':
      return onDurable(state, event.nodeId, () => ({ drain: event.drain }));
    case 'drain-completed':
      return onDurable(state, event.nodeId, ({ drain }) =>
        drain ? { drain: { ...drain, completedAt: event.at } } : {},
      );
    case 'node-paused':
      return onDurable(state, event.nodeId, () => ({ pausedAt: event.at }));
    case 'node-resumed':
      return onDurable(state, event.nodeId, () => ({ drain: null, pausedAt: null }));
    case 'deployment-created':
      return { ...state, deployments: withEntry(state.deployments, event.deployment.id, event.deployment) };
    case 'replica-placed':
      return onDeployment(state, event.deploymentId, (deployment) =>
        event.replica.epoch <= deployment.epoch || !deployment.wanted
          ? deployment
          : {
              ...deployment,
              phase: 'loading',
              reason: null,
              epoch: event.replica.epoch,
              replica: event.replica,
              nextAttemptAt: null,
            },
      );
    case 'leader-assigned':
      return onReplica(state, event.deploymentId, event.epoch, (deployment, replica) => ({
        ...deployment,
        replica: { ...replica, leaderAssignedAt: event.at },
      }));
    case 'replica-ready':
      return onReplica(state, event.deploymentId, event.epoch, (deployment, replica) => ({
        ...deployment,
        phase: deployment.phase === 'loading' ? 'ready' : deployment.phase,
        reason: deployment.phase === 'loading' ? null : deployment.reason,
        replica: { ...replica, readyAt: event.at },
      }));
    case 'replica-failed':
      return onReplica(state, event.deploymentId, event.epoch, (deployment) => ({
        ...deployment,
        phase: event.nextAttemptAt === null ? 'failed' : 'waiting',
        reason: event.error,
        replica: null,
        failures: [...deployment.failures, ...(event.left ? [] : [{ at: event.at, error: event.error }])]
          .filter((failure) => event.at - failure.at < timings.failureWindowMs)
          .slice(-16),
        nextAttemptAt: event.nextAttemptAt,
        failedWith: event.failedWith,
      }));
    case 'replica-draining':
      return onReplica(state, event.deploymentId, event.epoch, (deployment) => ({
        ...deployment,
        phase: 'draining',
        reason: event.reason,
      }));
    case 'drain-cancelled':
      return onReplica(state, event.deploymentId, event.epoch, (deployment, replica) => ({
        ...deployment,
        phase: replica.readyAt === null ? 'loading' : 'ready',
        reason: null,
      }));
    case 'replica-released':
      return onReplica(state, event.deploymentId, event.epoch, (deployment) => ({
        ...deployment,
        phase: 'waiting',
        reason: event.reason,
        replica: null,
        nextAttemptAt: event.at,
      }));
    case 'deployment-waited':
      return onDeployment(state, event.deploymentId, (deployment) => ({
        ...deployment,
        reason: event.reason,
      }));
    case 'retry-requested':
      return onDeployment(state, event.deploymentId, (deployment) =>
        deployment.replica !== null || !deployment.wanted
          ? deployment
          : { ...deployment, phase: 'waiting', failures: [], failedWith: [], nextAttemptAt: event.at },
      );
    case 'unload-requested':
      return onDeployment(state, event.deploymentId, (deployment) => ({
        ...deployment,
        wanted: false,
        phase: 'unloading',
        reason: null,
        nextAttemptAt: null,
      }));
    case 'deployment-removed':
      return { ...state, deployments: without(state.deployments, event.deploymentId) };
    case 'job-submitted':
    case 'job-cancel-requested':
    case 'job-retry-requested':
    case 'job-failed':
    case 'job-removed':
    case 'distribution-set':
    case 'share-released':
    case 'tasks-assigned':
    case 'tasks-reported':
    case 'tasks-ended':
    case 'partitions-fetched':
    case 'partition-fetch-failed':
    case 'gang-started':
    case 'result-collected': {
      const jobs = applyJobs(state.jobs, event, (id) => nodeName(state, id));
      return jobs === state.jobs ? state : { ...state, jobs };
    }
  }
}

/** What the owner's rules say, and since when they hold the machine back. */
function heldBack(
  before: LiveNode,
  lend: LendState | null,
  at: number,
): Pick<LiveNode, 'lend' | 'heldBackSince' | 'modelsHeldBackSince' | 'clearedAt'> {
  const lent = lend?.lending !== false;
  return {
    lend,
    heldBackSince: lent ? null : (before.heldBackSince ?? at),
    modelsHeldBackSince: lent && !lend?.noModels ? null : (before.modelsHeldBackSince ?? at),
    clearedAt: lent ? null : before.clearedAt,
  };
}

/** The observed set and, per engine, since when its CPU time has stood still. */
function observe(
  before: LiveNode,
  engines: readonly EngineObservation[],
  at: number,
): Pick<LiveNode, 'engines' | 'cpuStillSince'> {
  const next = new Map<EngineId, EngineObservation>();
  const cpuStillSince = new Map<EngineId, number>();
  for (const engine of engines) {
    next.set(engine.engineId, engine);
    const same = before.engines.get(engine.engineId)?.cpuMs === engine.cpuMs;
    cpuStillSince.set(engine.engineId, same ? (before.cpuStillSince.get(engine.engineId) ?? at) : at);
  }
  return { engines: next, cpuStillSince };
}

function onNode(
  state: ControllerState,
  id: NodeId,
  change: (node: NodeRecord) => NodeRecord,
): ControllerState {
  const node = state.nodes.get(id);
  if (!node) return state;
  const next = change(node);
  return next === node ? state : { ...state, nodes: withEntry(state.nodes, id, next) };
}

function onLive(
  state: ControllerState,
  id: NodeId,
  change: (live: LiveNode) => Partial<LiveNode>,
): ControllerState {
  return onNode(state, id, (node) => ({
    durable: node.durable,
    live: { ...node.live, ...change(node.live) },
  }));
}

function onDurable(
  state: ControllerState,
  id: NodeId,
  change: (durable: DurableNode) => Partial<DurableNode>,
): ControllerState {
  return onNode(state, id, (node) => ({
    live: node.live,
    durable: { ...node.durable, ...change(node.durable) },
  }));
}

function setDurable(state: ControllerState, node: NodeRecord, change: Partial<DurableNode>): ControllerState {
  return onDurable(state, node.durable.id, () => change);
}

function onDeployment(
  state: ControllerState,
  id: DeploymentId,
  change: (deployment: DeploymentRecord) => DeploymentRecord,
): ControllerState {
  const deployment = state.deployments.get(id);
  if (!deployment) return state;
  const next = change(deployment);
  return next === deployment ? state : { ...state, deployments: withEntry(state.deployments, id, next) };
}

/** Changes a deployment only while `epoch` is its current replica: late facts about older ones are dropped. */
function onReplica(
  state: ControllerState,
  id: DeploymentId,
  epoch: number,
  change: (
    deployment: DeploymentRecord,
    replica: NonNullable<DeploymentRecord['replica']>,
  ) => DeploymentRecord,
): ControllerState {
  return onDeployment(state, id, (deployment) =>
    deployment.replica?.epoch === epoch ? change(deployment, deployment.replica) : deployment,
  );
}

function withEntry<K, V>(map: ReadonlyMap<K, V>, key: K, value: V): ReadonlyMap<K, V> {
  return new Map(map).set(key, value);
}

function without<K, V>(map: ReadonlyMap<K, V>, key: K): ReadonlyMap<K, V> {
  if (!map.has(key)) return map;
  const next = new Map(map);
  next.delete(key);
  return next;
}
