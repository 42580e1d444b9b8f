import type { EngineObservation } from '#shared/domain/engine.ts';
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
    progress: record.progress,
    error: record.error,
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
