import type { EngineObservation, EngineProgress } from '#shared/domain/engine.ts';
import { boundedErrorBody } from '#shared/errors.ts';
import { isFinal, type AgentState, type EngineRecord } from './state.ts';

/** What a session frame can carry; see `observed` in the session protocol. */
const maxObserved = 256;

/**
 * The full observed set as the controller gets it, oldest first. Should there ever be more than a frame can
 * carry, engines that live go before those that have ended.
 */
export function observe(state: AgentState): EngineObservation[] {
  const records = [...state.engines.values()];
  const shown =
    records.length <= maxObserved
      ? records
      : [...records.filter((record) => !isFinal(record)), ...records.filter(isFinal)].slice(0, maxObserved);
  return shown.map(observation);
}

function observation(record: EngineRecord): EngineObservation {
  const { assignment } = record;
  return {
    engineId: assignment.engineId,
    deploymentId: assignment.deploymentId,
    epoch: assignment.epoch,
    kind: assignment.kind,
    phase: record.phase,
    progress: progressOf(record),
    error: record.error && boundedErrorBody(record.error),
    endpoint:
      record.phase === 'ready' && record.port !== null && record.grant !== null
        ? { port: record.port, grant: record.grant, apiKey: record.apiKey }
        : null,
    pid: record.pid,
    rssBytes: record.rssBytes,
    cpuMs: record.cpuMs,
    suspended: record.suspended,
    busySlots: record.busySlots,
    links: [...record.links],
    startedAt: record.startedAt,
  };
}

/**
 * A load's progress from two witnesses: llama-server counts whole tensors, the tunnels count bytes that have
 * left for the stages. Either is a lower bound and only grows, so the larger one is too, and a tensor that takes
 * a minute on a slow line still moves the bar.
 */
function progressOf(record: EngineRecord): EngineProgress | null {
  const { assignment, progress } = record;
  if (assignment.kind !== 'llama' || record.phase !== 'loading') return progress;
  const sentBytes = assignment.stages.reduce((sum, stage, index) => {
    const link = record.links.find((candidate) => candidate.stageEngineId === stage.engineId);
    return sum + Math.min(link?.sentBytes ?? 0, assignment.stageBytes[index] ?? 0);
  }, 0);
  if (progress === null && sentBytes === 0) return null;
  const totalBytes = assignment.modelBytes;
  const doneBytes = Math.min(totalBytes, Math.max(progress?.doneBytes ?? 0, sentBytes));
  return {
    step: progress?.step ?? 'loading tensors',
    doneBytes,
    totalBytes,
    percent: Math.round((doneBytes / totalBytes) * 1000) / 10,
  };
}
