import { engineId, type DeploymentId, type NodeId } from '#shared/lib/ids.ts';
import type { LlamaAssignment, RpcAssignment } from '#shared/domain/engine.ts';
import type { ErrorBody, ErrorCode } from '#shared/errors.ts';
import type { AgentConfig } from './state.ts';

/** Assignments for tests. */
export const nodeId = (digit: string): NodeId => digit.repeat(64) as NodeId;

export const testConfig: AgentConfig = {
  controllerId: nodeId('c'),
  physicalCores: 4,
  stopGraceMs: 5_000,
  stageStartMs: 60_000,
  canaryMs: 60_000,
  evidenceMs: 1_000,
  giveWayMs: 30_000,
};

const gib = 1024 ** 3;

export function rpc(
  overrides: { deploymentId?: string; epoch?: number; index?: number } & Partial<
    Pick<RpcAssignment, 'device' | 'threads' | 'weightBytes'>
  > = {},
): RpcAssignment {
  const deploymentId = (overrides.deploymentId ?? 'd-00000001') as DeploymentId;
  const epoch = overrides.epoch ?? 1;
  return {
    kind: 'rpc',
    engineId: engineId(deploymentId, epoch, overrides.index ?? 1),
    deploymentId,
    epoch,
    device: overrides.device ?? 'CPU',
    weightBytes: overrides.weightBytes ?? 10 * gib,
    threads: overrides.threads ?? null,
    clientNodeId: nodeId('a'),
  };
}

export function llama(
  overrides: {
    deploymentId?: string;
    epoch?: number;
    stages?: number;
    cpuLayers?: number;
    modelBytes?: number;
  } = {},
): LlamaAssignment {
  const deploymentId = (overrides.deploymentId ?? 'd-00000001') as DeploymentId;
  const epoch = overrides.epoch ?? 1;
  const stages = overrides.stages ?? 1;
  return {
    kind: 'llama',
    engineId: engineId(deploymentId, epoch, 0),
    deploymentId,
    epoch,
    modelPath: '/models/tiny.gguf',
    modelName: 'tiny',
    modelHash: 'hash-of-tiny',
    modelBytes: overrides.modelBytes ?? 1_000_000,
    contextPerRequest: 256,
    parallel: 2,
    gpuLayers: 17,
    cpuLayers: overrides.cpuLayers ?? 0,
    localDevices: [],
    tensorSplit: Array.from({ length: stages }, () => 1),
    stageBytes: Array.from({ length: stages }, () => 400_000),
    stages: Array.from({ length: stages }, (_, index) => ({
      engineId: engineId(deploymentId, epoch, index + 1),
      nodeId: nodeId(String(index + 1)),
      nodeName: `machine-${index + 1}`,
      addresses: [{ host: '192.0.2.1', port: 7879 }],
      grant: 'e'.repeat(64),
      layers: 8,
    })),
    loadStallMs: 180_000,
  };
}

export const errorBody = (code: ErrorCode): ErrorBody => ({ code, message: `as ${code} would say` });
