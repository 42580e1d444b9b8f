import type { DeploymentId } from '#shared/lib/ids.ts';
import type { NodeView } from '#shared/api/schema.ts';
import type { DeploymentView, StageView } from '#shared/domain/deployment.ts';
import type { EngineProgress } from '#shared/domain/engine.ts';
import {
  deploymentStatus,
  deploymentsOn,
  ineligibleReasons,
  nodeStatus,
  observedEngine,
} from '../state/selectors.ts';
import type {
  ControllerState,
  DeploymentRecord,
  NodeRecord,
  Replica,
  ReplicaMember,
} from '../state/state.ts';

export function nodeView(state: ControllerState, node: NodeRecord): NodeView {
  const { durable, live } = node;
  const reasons = ineligibleReasons(node);
  return {
    id: durable.id,
    name: durable.name,
    status: nodeStatus(state, node),
    eligible: reasons.length === 0,
    ineligibleReasons: reasons,
    connected: live.session !== null,
    lastSeenAt: live.session ? live.heardAt : durable.lastContactAt,
    joinedAt: durable.joinedAt,
    version: durable.facts?.version ?? null,
    engineBuildId: durable.facts?.engineBuildId ?? null,
    address: live.session?.remoteAddress ?? null,
    hardware: durable.facts?.hardware ?? null,
    telemetry: live.telemetry,
    drain: durable.drain,
    pausedAt: durable.pausedAt,
    lend: live.session ? live.lend : null,
    compute: live.session ? live.compute : null,
    deployments: deploymentsOn(state, durable.id).map((deployment) => deployment.id),
    engines: [...live.engines.values()].map(({ endpoint: _secret, ...engine }) => engine),
  };
}

export function deploymentView(
  state: ControllerState,
  deployment: DeploymentRecord,
  running: ReadonlyMap<DeploymentId, number>,
): DeploymentView {
  const { replica } = deployment;
  const status = deploymentStatus(state, deployment);
  const leader = replica && observedEngine(state, replica.leader);
  const leaderName = replica && (state.nodes.get(replica.leader.nodeId)?.durable.name ?? 'its leader');
  return {
    id: deployment.id,
    model: deployment.model,
    source: deployment.request.model,
    info: deployment.info,
    status,
    reason:
      status === 'recovering'
        ? { code: 'not_ready', message: `Waiting for ${leaderName} to answer again.` }
        : deployment.reason,
    epoch: deployment.epoch,
    contextPerRequest: replica?.plan.contextPerRequest ?? deployment.request.contextPerRequest ?? 0,
    parallel: replica?.plan.parallel ?? deployment.request.parallel ?? 0,
    layersTotal: replica?.plan.layersTotal ?? deployment.info.layerCount + 1,
    stages: replica ? stageViews(state, replica) : [],
    progress: status === 'loading' ? (leader?.progress ?? startingProgress(state, replica)) : null,
    requestsRunning: running.get(deployment.id) ?? 0,
    failures: [...deployment.failures],
    createdAt: deployment.createdAt,
    readyAt: replica?.readyAt ?? null,
    nextAttemptAt: deployment.phase === 'waiting' ? deployment.nextAttemptAt : null,
  };
}

function startingProgress(state: ControllerState, replica: Replica | null): EngineProgress {
  const total = replica?.stages.length ?? 0;
  const ready =
    replica?.stages.filter((stage) => observedEngine(state, stage)?.phase === 'ready').length ?? 0;
  return {
    step: total > 0 && ready < total ? `starting engines (${ready} of ${total})` : 'starting the leader',
    doneBytes: null,
    totalBytes: null,
    percent: 0,
  };
}

function stageViews(state: ControllerState, replica: Replica): StageView[] {
  const { plan } = replica;
  const links = observedEngine(state, replica.leader)?.links ?? [];
  const view = (
    member: ReplicaMember,
    rest: Pick<StageView, 'role' | 'device' | 'layers' | 'estimatedBytes'>,
  ): StageView => {
    const engine = observedEngine(state, member);
    const link = links.find((candidate) => candidate.stageEngineId === member.engineId);
    return {
      ...rest,
      engineId: member.engineId,
      nodeId: member.nodeId,
      nodeName: state.nodes.get(member.nodeId)?.durable.name ?? member.nodeId.slice(0, 12),
      percent: (rest.layers / plan.layersTotal) * 100,
      phase: engine?.phase ?? null,
      progress: engine?.progress ?? null,
      rssBytes: engine?.rssBytes ?? null,
      path: link?.path ?? null,
      rttMs: link?.rttMs ?? null,
      error: engine?.error ?? null,
    };
  };
  return [
    view(replica.leader, {
      role: 'leader',
      device: plan.engine.localDevices.join(', ') || 'CPU',
      layers: plan.leader.localLayers,
      estimatedBytes: plan.leader.estimatedBytes,
    }),
    ...replica.stages.map((stage) =>
      view(stage, {
        role: 'stage',
        device: stage.device,
        layers: stage.layers,
        estimatedBytes: stage.estimatedBytes,
      }),
    ),
  ];
}
