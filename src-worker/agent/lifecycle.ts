import type { EngineId } from '#shared/lib/ids.ts';
import type { EnginePhase, LlamaAssignment } from '#shared/domain/engine.ts';
import type { EngineHostInit } from '#shared/host/engine-host.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { drop, patch, type Draft } from './draft.ts';
import { batchTokens, leaderPoll, leaderThreads, stageThreads } from './settings.ts';
import { isAlive, isEnding, isFinal, lentCores, type EngineRecord } from './state.ts';

/**
 * A stage serves one client, which opens and closes its one connection a few times while it starts (asking for
 * devices, then loading): the old stream may still be closing while the next one opens.
 */
const stageStreams = 8;
/** Requests at once that the gateway may bring, waiting ones included. */
const leaderStreams = 256;

const order: readonly EnginePhase[] = [
  'starting',
  'connecting',
  'loading',
  'canary',
  'ready',
  'stopping',
  'stopped',
  'failed',
];

/** Phases only go forward; a late message of a host that is being ended changes nothing. */
export function movesForward(from: EnginePhase, to: EnginePhase): boolean {
  if (from === 'failed' || from === 'stopped') return false;
  return order.indexOf(to) > order.indexOf(from);
}

/** Starts every engine that waits and whose predecessors of the same deployment have let go of their memory. */
export function launchWaiting(draft: Draft): void {
  for (const [engineId, record] of draft.state.engines) {
    if (record.host !== 'waiting' || isFinal(record)) continue;
    const { deploymentId, epoch } = record.assignment;
    const blocked = [...draft.state.engines.values()].some(
      (other) =>
        isEnding(other) && other.assignment.deploymentId === deploymentId && other.assignment.epoch < epoch,
    );
    if (blocked) continue;
    if (record.assignment.kind === 'llama' && record.assignment.stages.length > 0) {
      patch(draft, engineId, { host: 'linking', linksHeld: true, phase: 'connecting' });
      draft.commands.push({ type: 'openLinks', engineId, stages: record.assignment.stages });
    } else {
      startHost(draft, engineId, []);
    }
  }
}

function startHost(draft: Draft, engineId: EngineId, linkPorts: readonly number[]): void {
  const record = draft.state.engines.get(engineId);
  if (!record) return;
  const { assignment } = record;
  const { config } = draft.state;
  const cores = lentCores(draft.state);
  const others = [...draft.state.engines.values()].filter((other) => other !== record && isAlive(other));
  const otherCpuEngines = others.filter(({ assignment: other }) =>
    other.kind === 'rpc' ? other.device === 'CPU' : other.cpuLayers > 0,
  ).length;

  let apiKey: string | null = null;
  let program: EngineHostInit['program'];
  if (assignment.kind === 'rpc') {
    program = {
      kind: 'rpc',
      device: assignment.device,
      threads: Math.min(cores, stageThreads(assignment, cores, otherCpuEngines)),
      startMs: config.stageStartMs,
    };
  } else {
    apiKey = draft.context.newSecret();
    program = {
      kind: 'llama',
      modelPath: assignment.modelPath,
      modelName: assignment.modelName,
      modelBytes: assignment.modelBytes,
      apiKey,
      contextPerRequest: assignment.contextPerRequest,
      parallel: assignment.parallel,
      gpuLayers: assignment.gpuLayers,
      localDevices: assignment.localDevices,
      tensorSplit: assignment.tensorSplit,
      rpcEndpoints: linkPorts.map((port) => `127.0.0.1:${port}`),
      threads: leaderThreads(assignment, cores, otherCpuEngines),
      poll: leaderPoll(assignment, others.length),
      batch: batchTokens(assignment.modelBytes),
      loadStallMs: assignment.loadStallMs,
      canaryMs: config.canaryMs,
    };
  }
  patch(draft, engineId, { host: 'running', apiKey });
  draft.commands.push({ type: 'startEngine', assignment, program });
}

/** Ends an engine by wish. `error` is what the observation says afterwards (a lease that ran out). */
export function stop(draft: Draft, engineId: EngineId, error: ErrorBody | null): void {
  const record = draft.state.engines.get(engineId);
  if (!record || isFinal(record)) return;
  if (!isAlive(record)) {
    releaseLinks(draft, engineId, record);
    patch(draft, engineId, {
      phase: 'stopped',
      host: 'ended',
      error: error ?? record.suspicion?.error ?? null,
      suspicion: null,
    });
    return;
  }
  if (record.phase === 'stopping') return;
  removeGrant(draft, engineId, record);
  patch(draft, engineId, { phase: 'stopping', stopError: error, progress: null, grant: null });
  draft.commands.push({ type: 'stopEngine', engineId, graceMs: draft.state.config.stopGraceMs });
}

/** Ends an engine at once because of `error`; the first error stands. */
export function fail(draft: Draft, engineId: EngineId, error: ErrorBody): void {
  const record = draft.state.engines.get(engineId);
  if (!record || isFinal(record)) return;
  removeGrant(draft, engineId, record);
  if (isAlive(record)) draft.commands.push({ type: 'stopEngine', engineId, graceMs: 0 });
  releaseLinks(draft, engineId, record);
  patch(draft, engineId, {
    phase: 'failed',
    error: { ...error, message: withMachineNames(record, error.message) },
    progress: null,
    grant: null,
    suspicion: null,
    host: isAlive(record) ? 'running' : 'ended',
  });
}

/** The engine knows its stages as devices, `RPC1` or `RPC1[127.0.0.1:4001]`; people know them as machines. */
function withMachineNames({ assignment }: EngineRecord, message: string): string {
  if (assignment.kind !== 'llama') return message;
  return message.replace(
    /\bRPC(\d+)\b(?:\[[^\]]*\])?/g,
    (device, index) => assignment.stages[Number(index)]?.nodeName ?? device,
  );
}

function removeGrant(draft: Draft, engineId: EngineId, record: EngineRecord): void {
  if (record.grant !== null) draft.commands.push({ type: 'removeGrants', engineId });
}

function releaseLinks(draft: Draft, engineId: EngineId, record: EngineRecord): void {
  if (!record.linksHeld) return;
  draft.commands.push({ type: 'closeLinks', engineId });
  patch(draft, engineId, { linksHeld: false, links: [] });
}

export function hostPhase(draft: Draft, engineId: EngineId, phase: EnginePhase): void {
  const record = draft.state.engines.get(engineId);
  if (!record || !isAlive(record) || !movesForward(record.phase, phase)) return;
  // Only `stop`, `fail` and the host's end decide on these.
  if (phase === 'stopping' || phase === 'stopped' || phase === 'failed') return;
  if (phase !== 'ready') {
    patch(draft, engineId, { phase });
    return;
  }
  if (record.port === null) return;
  const token = draft.context.newSecret();
  const { assignment } = record;
  draft.commands.push(
    assignment.kind === 'rpc'
      ? {
          type: 'addGrant',
          engineId,
          token,
          port: record.port,
          peers: [assignment.clientNodeId],
          alpn: 'tunnel',
          maxStreams: stageStreams,
        }
      : {
          type: 'addGrant',
          engineId,
          token,
          port: record.port,
          peers: [draft.state.config.controllerId],
          alpn: 'http',
          maxStreams: leaderStreams,
        },
  );
  patch(draft, engineId, { phase, grant: token, progress: null });
}

/**
 * The host is gone and with it what it started:
 * 1. it had failed before, or was told to stop: that is how it ended;
 * 2. a leader that broke off may have lost a stage: wait for a link to name it;
 * 3. otherwise the host's own reason stands.
 */
export function hostEnded(draft: Draft, engineId: EngineId, error: ErrorBody | null): void {
  const record = draft.state.engines.get(engineId);
  if (!record) return;
  patch(draft, engineId, {
    host: 'ended',
    suspended: false,
    busySlots: null,
    rssBytes: null,
    deviceBytes: null,
  });
  // 1.
  if (isFinal(record)) return;
  if (record.phase === 'stopping') {
    releaseLinks(draft, engineId, record);
    patch(draft, engineId, { phase: 'stopped', error: record.stopError });
    return;
  }
  const reason: ErrorBody = error ?? { code: 'engine_crashed', message: 'the engine ended without a reason' };
  // 2.
  const broken = reason.code === 'engine_crashed' || reason.code === 'stage_lost';
  if (record.linksHeld && broken) {
    removeGrant(draft, engineId, record);
    patch(draft, engineId, {
      phase: 'stopping',
      grant: null,
      progress: null,
      suspicion: { error: reason, until: draft.context.now + draft.state.config.evidenceMs },
    });
    return;
  }
  // 3.
  fail(draft, engineId, reason);
}

/** No link spoke in time: the engine's own account stands, with the stage's name if it can only be one. */
export function suspicionsOver(draft: Draft): void {
  for (const [engineId, record] of draft.state.engines) {
    if (!record.suspicion || draft.context.now < record.suspicion.until) continue;
    const { error } = record.suspicion;
    const stages = record.assignment.kind === 'llama' ? record.assignment.stages : [];
    const only = stages.length === 1 ? stages[0] : undefined;
    fail(
      draft,
      engineId,
      error.code === 'stage_lost' && only
        ? { ...error, message: `the stage on ${only.nodeName} was lost: ${error.message}` }
        : error,
    );
  }
}

export function stageLost(draft: Draft, engineId: EngineId, stageEngineId: EngineId, cause: ErrorBody): void {
  const record = draft.state.engines.get(engineId);
  if (!record || record.assignment.kind !== 'llama') return;
  if (record.phase === 'stopping' && !record.suspicion) return;
  fail(draft, engineId, stageLostError(record.assignment, stageEngineId, cause));
}

function stageLostError(assignment: LlamaAssignment, stageEngineId: EngineId, cause: ErrorBody): ErrorBody {
  const stage = assignment.stages.find((candidate) => candidate.engineId === stageEngineId);
  const where = stage ? `the stage on ${stage.nodeName}` : `stage ${stageEngineId}`;
  const named = stage !== undefined && cause.message.includes(stage.nodeName);
  return {
    code: 'stage_lost',
    message: named ? cause.message : `${where} was lost: ${cause.message}`,
    reasons: [{ code: cause.code, message: cause.message, ...(stage ? { nodeId: stage.nodeId } : {}) }],
  };
}

export function linksOpened(draft: Draft, engineId: EngineId, ports: readonly number[]): void {
  const record = draft.state.engines.get(engineId);
  if (!record || record.host !== 'linking' || isFinal(record)) return;
  startHost(draft, engineId, ports);
}

/** Drops what has ended and is of no more interest to the controller. */
export function dropUnnamed(draft: Draft): void {
  for (const [engineId, record] of draft.state.engines) {
    if (isFinal(record) && !isAlive(record) && !draft.state.named.has(engineId)) drop(draft, engineId);
  }
}
