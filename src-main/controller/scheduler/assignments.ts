import type { EngineId, NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type { EngineAssignment, LlamaAssignment, StageTarget } from '#shared/domain/engine.ts';
import { timings } from '#shared/config.ts';
import { observedEngine } from '../state/selectors.ts';
import type { ControllerState, DeploymentRecord, NodeRecord, Replica } from '../state/state.ts';

export interface NodeAssignments {
  readonly engines: readonly EngineAssignment[];
  readonly keep: readonly EngineId[];
}

/**
 * What a node should run, whole. A leader's assignment needs the grants of its stages; while those are not
 * known (the controller has just restarted) a leader that was assigned before is named in `keep`.
 */
export function assignmentsFor(state: ControllerState, nodeId: NodeId): NodeAssignments {
  const engines: EngineAssignment[] = [];
  const keep: EngineId[] = [];
  for (const deployment of state.deployments.values()) {
    const replica = deployment.replica;
    if (!replica || !deployment.wanted) continue;
    for (const [index, stage] of replica.stages.entries()) {
      if (stage.nodeId !== nodeId) continue;
      engines.push({
        kind: 'rpc',
        engineId: stage.engineId,
        deploymentId: deployment.id,
        epoch: replica.epoch,
        device: stage.device,
        weightBytes: replica.plan.stages[index]?.weightBytes ?? 0,
        threads: null,
        clientNodeId: replica.leader.nodeId,
      });
    }
    if (replica.leader.nodeId === nodeId && replica.leaderAssignedAt !== null) {
      const assignment = leaderAssignment(state, deployment, replica);
      if (assignment && replica.readyAt === null) engines.push(assignment);
      else keep.push(replica.leader.engineId);
    }
  }
  return { engines, keep };
}

function leaderAssignment(
  state: ControllerState,
  deployment: DeploymentRecord,
  replica: Replica,
): LlamaAssignment | null {
  const leader = state.nodes.get(replica.leader.nodeId);
  const file = deployment.files.get(replica.leader.nodeId);
  if (!leader || !file) return null;
  const stages: StageTarget[] = [];
  for (const stage of replica.stages) {
    const node = state.nodes.get(stage.nodeId);
    const endpoint = observedEngine(state, stage)?.endpoint;
    if (!node || !endpoint) return null;
    stages.push({
      engineId: stage.engineId,
      nodeId: stage.nodeId,
      nodeName: node.durable.name,
      addresses: dialAddresses(node, leader),
      grant: endpoint.grant,
      layers: stage.layers,
    });
  }
  const { plan } = replica;
  return {
    kind: 'llama',
    engineId: replica.leader.engineId,
    deploymentId: deployment.id,
    epoch: replica.epoch,
    modelPath: file.path,
    modelName: deployment.model,
    modelHash: file.hash,
    modelBytes: deployment.info.fileBytes,
    contextPerRequest: plan.contextPerRequest,
    parallel: plan.parallel,
    gpuLayers: plan.engine.gpuLayers,
    cpuLayers: plan.leader.cpuLayers,
    localDevices: [...plan.engine.localDevices],
    tensorSplit: [...plan.engine.tensorSplit],
    stageBytes: plan.stages.map((stage) => stage.weightBytes),
    stages,
    loadStallMs: timings.loadStallMs,
  };
}

/**
 * Where `from` should dial `node`, best first. The address by which the controller sees the node is good
 * unless it is a loopback that means another machine to `from`.
 */
export function dialAddresses(node: NodeRecord, from: NodeRecord | null): Address[] {
  const announced = node.durable.facts?.addresses ?? [];
  const port = announced[0]?.port;
  const seen = node.live.session?.remoteAddress;
  const sameHost = from === null || isLoopback(from.live.session?.remoteAddress ?? '');
  const candidates: Address[] = [];
  if (seen !== undefined && port !== undefined && (!isLoopback(seen) || sameHost))
    candidates.push({ host: seen, port });
  for (const address of announced) {
    if (!candidates.some((known) => known.host === address.host && known.port === address.port))
      candidates.push(address);
  }
  return candidates.slice(0, 16);
}

function isLoopback(host: string): boolean {
  return host === '::1' || /^(?:::ffff:)?127\./.test(host);
}
