import { GiB, hardwareOf, model, nodeId, telemetry } from '../../src-main/controller/state/fixtures.ts';
import type { ModelView, NodeView, StatusView, TransferView } from '../../src-main/shared/api/schema.ts';
import type { DeploymentView, StageView } from '../../src-main/shared/domain/deployment.ts';
import type { ModelInfo } from '../../src-main/shared/domain/model-info.ts';
import type { DeploymentId, EngineId } from '../../src-main/shared/lib/ids.ts';

/** Examples of what `/api` answers, for tests of its clients. All times are relative to `at`. */
export const at = Date.UTC(2026, 10, 30, 12, 0, 0);

export const nodeIdOf = nodeId;
export const exampleId = 'd-1a2b3c4d' as DeploymentId;

export function exampleNode(changes: Partial<NodeView> = {}): NodeView {
  return {
    id: nodeIdOf('a'),
    name: 'desk',
    status: 'ready',
    eligible: true,
    ineligibleReasons: [],
    connected: true,
    lastSeenAt: at - 1_000,
    joinedAt: at - 86_400_000,
    version: '0.1.0',
    engineBuildId: 'v0.4.0-rpc6-linux-x64',
    address: '192.0.2.10',
    hardware: hardwareOf({
      os: { platform: 'linux', arch: 'x64', release: 'Debian 12', hostname: 'desk' },
      cpu: { model: 'Example CPU 9000', physicalCores: 8 },
      ramBytes: 32 * GiB,
      freeBytes: 20 * GiB,
      disk: { known: true, value: { path: '/home', totalBytes: 900 * GiB, freeBytes: 410 * GiB } },
      gpus: { known: false, reason: 'the probe timed out' },
    }),
    telemetry: {
      ...telemetry,
      cpuLoad: 0.124,
      ramTotalBytes: 32 * GiB,
      ramAvailableBytes: 20.5 * GiB,
      diskFreeBytes: 400 * GiB,
      deviceFree: [{ id: 'CPU', freeBytes: 20 * GiB, load: null, celsius: null }],
    },
    drain: null,
    pausedAt: null,
    lend: null,
    compute: null,
    deployments: [],
    engines: [],
    ...changes,
  };
}

export const exampleStatus: StatusView = {
  version: '0.1.0',
  protocol: 1,
  nodeId: nodeIdOf('c'),
  name: 'hall',
  startedAt: at - 3_600_000,
  engineBuildId: { known: true, value: 'v0.4.0-rpc6-linux-x64' },
  apiAddress: 'http://127.0.0.1:7878',
  clusterAddress: '0.0.0.0:7879',
  nodes: { total: 2, ready: 1 },
  deployments: { total: 1, ready: 1 },
  requestsRunning: 3,
};

const exampleInfo: ModelInfo = { ...model, name: 'stories260K' };

export function exampleStage(changes: Partial<StageView> = {}): StageView {
  return {
    engineId: `${exampleId}.1.0` as EngineId,
    nodeId: nodeIdOf('a'),
    nodeName: 'desk',
    role: 'leader',
    device: 'CPU',
    layers: 3,
    percent: 50,
    estimatedBytes: 3_000_000,
    phase: 'ready',
    progress: null,
    rssBytes: 52_000_000,
    path: null,
    rttMs: null,
    error: null,
    ...changes,
  };
}

export function exampleDeployment(changes: Partial<DeploymentView> = {}): DeploymentView {
  return {
    id: exampleId,
    model: 'stories260K',
    source: '/models/stories260K.gguf',
    info: exampleInfo,
    status: 'ready',
    reason: null,
    epoch: 1,
    contextPerRequest: 2048,
    parallel: 4,
    layersTotal: 6,
    stages: [
      exampleStage(),
      exampleStage({
        engineId: `${exampleId}.1.1` as EngineId,
        nodeId: nodeIdOf('b'),
        nodeName: 'attic',
        role: 'stage',
        rssBytes: 41_000_000,
        path: 'direct',
        rttMs: 0.42,
      }),
    ],
    progress: null,
    requestsRunning: 1,
    failures: [],
    createdAt: at - 10_000,
    readyAt: at - 5_000,
    nextAttemptAt: null,
    ...changes,
  };
}

export function exampleTransfer(changes: Partial<TransferView> = {}): TransferView {
  return {
    id: 't-1',
    kind: 'pull',
    nodeId: nodeIdOf('a'),
    source: 'hf:owner/repo/file.gguf',
    status: 'running',
    doneBytes: 0,
    totalBytes: null,
    bytesPerS: null,
    model: null,
    error: null,
    ...changes,
  };
}

export const exampleModel: ModelView = {
  name: 'stories260K',
  path: '/data/models/stories260K.gguf',
  fileBytes: 1_185_376,
  addedAt: at,
  source: 'hf:ggml-org/test-model-stories260K',
  info: exampleInfo,
  nodeId: nodeIdOf('a'),
  nodeName: 'desk',
};
