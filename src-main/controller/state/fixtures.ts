import type { BootId, DeploymentId, EngineId, NodeId } from '#shared/lib/ids.ts';
import { engineId } from '#shared/lib/ids.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { LendState } from '#shared/domain/lend.ts';
import type { Hardware, Telemetry } from '#shared/domain/node.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { ModelInfo } from '#shared/domain/model-info.ts';
import type { ControllerEvent } from './events.ts';
import type { DeploymentRecord, NodeFacts, Replica } from './state.ts';

/** Values for tests of the controller's pure parts. */
export const GiB = 2 ** 30;

export function nodeId(digit: string): NodeId {
  return digit.repeat(64).slice(0, 64) as NodeId;
}

export function bootId(digit: string): BootId {
  return digit.repeat(32).slice(0, 32) as BootId;
}

export const deploymentId = 'd-00000001' as DeploymentId;

export const telemetry: Telemetry = {
  cpuLoad: 0.1,
  ramTotalBytes: 16 * GiB,
  ramAvailableBytes: 12 * GiB,
  diskFreeBytes: 100 * GiB,
  ownRssBytes: 100e6,
  deviceFree: [],
  receiveBytesPerS: null,
  sendBytesPerS: null,
  celsius: null,
};

/** Of a machine that computes on its processor. */
export function hardwareOf(machine: {
  readonly os: Hardware['os'];
  readonly cpu: { readonly model: string; readonly physicalCores: number };
  readonly ramBytes: number;
  readonly freeBytes: number;
  readonly disk: Hardware['disk'];
  readonly gpus: Hardware['gpus'];
}): Hardware {
  const { os, cpu, ramBytes, freeBytes, disk, gpus } = machine;
  return {
    os,
    cpu: { known: true, value: { ...cpu, logicalCores: 2 * cpu.physicalCores } },
    ram: { known: true, value: { totalBytes: ramBytes } },
    disk,
    gpus,
    devices: {
      known: true,
      value: [
        {
          id: 'CPU',
          kind: 'cpu',
          backend: 'CPU',
          name: cpu.model,
          totalBytes: ramBytes,
          freeBytes,
          pciId: null,
        },
      ],
    },
  };
}

export const facts: NodeFacts = {
  version: '0.1.0',
  engineBuildId: 'v0.4.0-test',
  engineProblem: null,
  hardware: hardwareOf({
    os: { platform: 'linux', arch: 'x64', release: '6', hostname: 'h' },
    cpu: { model: 'CPU', physicalCores: 4 },
    ramBytes: 16 * GiB,
    freeBytes: 12 * GiB,
    disk: { known: false, reason: 'not asked' },
    gpus: { known: true, value: [] },
  }),
  addresses: [{ host: '192.0.2.1', port: 7879 }],
  machine: null,
};

export const model: ModelInfo = {
  name: 'tiny',
  architecture: 'llama',
  fileBytes: 1_185_376,
  layerCount: 5,
  contextLength: 2048,
  embeddingLength: 64,
  feedForwardLength: 172,
  headCount: 8,
  headCountKv: 4,
  keyLength: 8,
  valueLength: 8,
  vocabSize: 512,
  fileType: 'F32',
  hasChatTemplate: false,
  tensorBytes: {
    embedding: 131_072,
    output: 131_328,
    layers: [180_000, 180_000, 180_000, 180_000, 180_000],
    other: 0,
  },
  tiedOutput: false,
  kvElements: [64, 64, 64, 64, 64],
  stateBytes: [0, 0, 0, 0, 0],
  pooling: null,
  embeddingOnly: false,
  split: null,
};

export function joined(digit: string, name: string, at = 0): ControllerEvent {
  return { type: 'node-joined', at, nodeId: nodeId(digit), name };
}

export function connected(
  digit: string,
  options: {
    at?: number;
    session?: number;
    boot?: string;
    engines?: readonly EngineObservation[];
    compute?: ComputeFacts;
    facts?: NodeFacts;
    lend?: LendState;
  } = {},
): ControllerEvent {
  return {
    type: 'session-opened',
    at: options.at ?? 0,
    nodeId: nodeId(digit),
    sessionId: options.session ?? 1,
    remoteAddress: `192.0.2.${digit.charCodeAt(0)}`,
    bootId: bootId(options.boot ?? digit),
    name: digit,
    facts: options.facts ?? facts,
    telemetry,
    lend: options.lend ?? null,
    compute: options.compute ?? null,
    engines: options.engines ?? [],
  };
}

export function deployment(overrides: Partial<DeploymentRecord> = {}): DeploymentRecord {
  return {
    id: deploymentId,
    model: 'tiny',
    info: model,
    files: new Map([[nodeId('a'), { path: '/m/tiny.gguf', hash: 'h1' }]]),
    request: {
      model: '/m/tiny.gguf',
      nodes: null,
      weights: null,
      leader: null,
      contextPerRequest: null,
      parallel: null,
    },
    createdAt: 0,
    wanted: true,
    phase: 'waiting',
    reason: null,
    epoch: 0,
    replica: null,
    failures: [],
    nextAttemptAt: null,
    failedWith: [],
    ...overrides,
  };
}

export function observation(
  epoch: number,
  index: number,
  overrides: Partial<EngineObservation> = {},
): EngineObservation {
  const id: EngineId = engineId(deploymentId, epoch, index);
  return {
    engineId: id,
    deploymentId,
    epoch,
    kind: index === 0 ? 'llama' : 'rpc',
    phase: 'ready',
    progress: null,
    error: null,
    endpoint: { port: 40_000 + index, grant: 'f'.repeat(64), apiKey: index === 0 ? 'e'.repeat(64) : null },
    pid: 1000 + index,
    rssBytes: 1e6,
    cpuMs: 0,
    suspended: false,
    busySlots: index === 0 ? 0 : null,
    links: [],
    startedAt: 0,
    ...overrides,
  };
}

/** A replica led by node a with one stage on node b, as placed at `at`. */
export function replica(epoch = 1, at = 0): Replica {
  return {
    epoch,
    plan: {
      contextPerRequest: 2048,
      parallel: 2,
      layersTotal: 6,
      leader: { nodeId: nodeId('a'), localLayers: 3, cpuLayers: 3, estimatedBytes: 5 },
      stages: [{ nodeId: nodeId('b'), device: 'CPU', layers: 3, weightBytes: 4, estimatedBytes: 6 }],
      engine: { gpuLayers: 3, localDevices: [], tensorSplit: [3] },
    },
    leader: { nodeId: nodeId('a'), engineId: engineId(deploymentId, epoch, 0), bootId: bootId('a') },
    stages: [
      {
        nodeId: nodeId('b'),
        engineId: engineId(deploymentId, epoch, 1),
        bootId: bootId('b'),
        device: 'CPU',
        layers: 3,
        estimatedBytes: 6,
      },
    ],
    placedAt: at,
    leaderAssignedAt: null,
    readyAt: null,
  };
}
