import type { DeploymentId, EngineId, NodeId } from '#shared/lib/ids.ts';
import type {
  EngineAssignment,
  EnginePhase,
  EngineProgress,
  LinkObservation,
} from '#shared/domain/engine.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Fence } from './fence.ts';

/** What the agent must know of its machine and its covey; fixed for one boot. */
export interface AgentConfig {
  /** The only key that may speak HTTP to a llama-server here. */
  readonly controllerId: NodeId;
  /** Cores that compute without sharing one another's units, >= 1. */
  readonly physicalCores: number;
  /** How long a native program gets between the polite and the forced end. */
  readonly stopGraceMs: number;
  /** How long a stage may take to answer, and a leader to answer the canary. */
  readonly stageStartMs: number;
  readonly canaryMs: number;
  /** After a leader's engine died: how long to wait for a link to say which stage was the cause. */
  readonly evidenceMs: number;
  /** How long requests may go on after this machine has begun to give way. */
  readonly giveWayMs: number;
}

/** How far the owner lends this machine now. */
export interface Lend {
  /** null: it is lent; else since when not. */
  readonly awaySince: number | null;
  /** Why it is not lent, in sentences; empty when it is. */
  readonly why: string;
  readonly cpuThreads: number | null;
  readonly ramBytes: number | null;
  /** By the engine's name of the device; those without an entry are free. */
  readonly vramBytes: Readonly<Record<string, number>>;
}

/** One engine this worker has taken on, from its assignment until the controller no longer names it. */
export interface EngineRecord {
  readonly assignment: EngineAssignment;
  readonly phase: EnginePhase;
  readonly error: ErrorBody | null;
  readonly progress: EngineProgress | null;
  readonly startedAt: number;
  /** Loopback port of the native program. */
  readonly port: number | null;
  readonly pid: number | null;
  readonly apiKey: string | null;
  /** The right to reach it from outside; null until it is ready and after it has ended. */
  readonly grant: string | null;
  readonly rssBytes: number | null;
  /** What it holds on accelerators, by their names; null: no driver has told. */
  readonly deviceBytes: Readonly<Record<string, number>> | null;
  readonly cpuMs: number | null;
  readonly suspended: boolean;
  readonly busySlots: number | null;
  readonly links: readonly LinkObservation[];
  /**
   * `waiting`: an older engine of the same deployment still holds its memory. `linking`: the tunnels open.
   * `running`: the host was started. `ended`: it is gone with all it started, or never was.
   */
  readonly host: 'waiting' | 'linking' | 'running' | 'ended';
  /** Links were asked for and have not been given back. */
  readonly linksHeld: boolean;
  /** A stop that was wished for ends with this error instead of none. */
  readonly stopError: ErrorBody | null;
  /** The engine died and a link may still say why. */
  readonly suspicion: { readonly error: ErrorBody; readonly until: number } | null;
}

export interface AgentState {
  readonly config: AgentConfig;
  readonly engines: ReadonlyMap<EngineId, EngineRecord>;
  /** `engines` and `keep` of the last assignments: what the controller still wants to hear of. */
  readonly named: ReadonlySet<EngineId>;
  /** Of the last assignments in this session; 0 before the first. */
  readonly generation: number;
  readonly connected: boolean;
  readonly leaseMs: number;
  /** null before the first welcome. */
  readonly lastAckAt: number | null;
  /** Engine ids that must not be started (again). */
  readonly fences: ReadonlyMap<DeploymentId, Fence>;
  readonly lend: Lend;
  readonly closing: boolean;
}

export function initialAgentState(config: AgentConfig): AgentState {
  return {
    config,
    engines: new Map(),
    named: new Set(),
    generation: 0,
    connected: false,
    leaseMs: 0,
    lastAckAt: null,
    fences: new Map(),
    lend: { awaySince: null, why: '', cpuThreads: null, ramBytes: null, vramBytes: {} },
    closing: false,
  };
}

/** Cores that engines may count on. */
export function lentCores({ config, lend }: AgentState): number {
  return Math.min(config.physicalCores, lend.cpuThreads ?? Infinity);
}

/** `failed` and `stopped` are final. */
export function isFinal(record: EngineRecord): boolean {
  return record.phase === 'failed' || record.phase === 'stopped';
}

/** The native program, or the host that is to start it, may still hold memory. */
export function isAlive(record: EngineRecord): boolean {
  return record.host === 'running';
}

/** On its way out, still holding memory. */
export function isEnding(record: EngineRecord): boolean {
  return isAlive(record) && (record.phase === 'stopping' || isFinal(record));
}

/** Nothing is left that has to end: an orderly shutdown is complete. */
export function isQuiet(state: AgentState): boolean {
  return [...state.engines.values()].every((record) => !isAlive(record) && !record.linksHeld);
}
