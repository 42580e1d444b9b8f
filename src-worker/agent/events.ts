import type { EngineId, NodeId } from '#shared/lib/ids.ts';
import type {
  EngineAssignment,
  EnginePhase,
  EngineProgress,
  LinkObservation,
  StageTarget,
} from '#shared/domain/engine.ts';
import type { EngineHostInit } from '#shared/host/engine-host.ts';
import type { ErrorBody } from '#shared/errors.ts';

/** Facts the agent hears of, past tense. Each is applied at `context.now`. */
export type AgentEvent =
  | { readonly type: 'welcome'; readonly leaseMs: number }
  | { readonly type: 'session_lost' }
  | { readonly type: 'ack' }
  | {
      readonly type: 'assignments';
      readonly generation: number;
      readonly engines: readonly EngineAssignment[];
      readonly keep: readonly EngineId[];
    }
  | { readonly type: 'host_phase'; readonly engineId: EngineId; readonly phase: EnginePhase }
  | { readonly type: 'host_progress'; readonly engineId: EngineId; readonly progress: EngineProgress }
  | {
      readonly type: 'host_listening';
      readonly engineId: EngineId;
      readonly port: number;
      readonly pid: number;
    }
  | {
      readonly type: 'host_beat';
      readonly engineId: EngineId;
      readonly pid: number;
      readonly rssBytes: number | null;
      readonly cpuMs: number | null;
      readonly suspended: boolean;
      readonly busySlots: number | null;
    }
  | {
      readonly type: 'host_canary';
      readonly engineId: EngineId;
      readonly firstToken: number | null;
      readonly firstMargin: number | null;
      /** What this model answered here before. */
      readonly recorded: CanaryRecord | null;
    }
  /** The host and everything it started are gone. `error` null: it ended because it was told to. */
  | { readonly type: 'host_exit'; readonly engineId: EngineId; readonly error: ErrorBody | null }
  /** All links of a leader, loopback ports in stage order. */
  | { readonly type: 'links_opened'; readonly engineId: EngineId; readonly ports: readonly number[] }
  | { readonly type: 'links_failed'; readonly engineId: EngineId; readonly error: ErrorBody }
  | {
      readonly type: 'link_lost';
      readonly engineId: EngineId;
      readonly stageEngineId: EngineId;
      readonly error: ErrorBody;
    }
  | {
      readonly type: 'links_observed';
      readonly engineId: EngineId;
      readonly links: readonly LinkObservation[];
    }
  /** The owner's rules, or whether they are met, have changed. */
  | {
      readonly type: 'lend';
      readonly lending: boolean;
      readonly why: string;
      readonly cpuThreads: number | null;
      readonly ramBytes: number | null;
      /** By the engine's name of the device; those without an entry are free. */
      readonly vramBytes: Readonly<Record<string, number>>;
    }
  /** What programs hold on accelerators: bytes by device, by process id. Those that tell nothing are not in it. */
  | {
      readonly type: 'devices_measured';
      readonly byPid: ReadonlyMap<number, Readonly<Record<string, number>>>;
    }
  | { readonly type: 'tick' }
  | { readonly type: 'shutdown' };

/** The first token of the canary and how far it led the second, in nats. */
export interface CanaryRecord {
  readonly token: number;
  readonly margin: number;
}

/** Wishes, imperative. The runtime executes them in order; none of them answers but by events. */
export type AgentCommand =
  | {
      readonly type: 'startEngine';
      readonly assignment: EngineAssignment;
      readonly program: EngineHostInit['program'];
    }
  | { readonly type: 'stopEngine'; readonly engineId: EngineId; readonly graceMs: number }
  /** Whether the program with this pid gives the machine's people the processor first. */
  | { readonly type: 'setPriority'; readonly pid: number; readonly low: boolean }
  | { readonly type: 'openLinks'; readonly engineId: EngineId; readonly stages: readonly StageTarget[] }
  | { readonly type: 'closeLinks'; readonly engineId: EngineId }
  | {
      readonly type: 'addGrant';
      readonly engineId: EngineId;
      readonly token: string;
      readonly port: number;
      readonly peers: readonly NodeId[];
      readonly alpn: 'tunnel' | 'http';
      readonly maxStreams: number;
    }
  | { readonly type: 'removeGrants'; readonly engineId: EngineId }
  | { readonly type: 'recordCanary'; readonly modelHash: string; readonly record: CanaryRecord }
  /** The observed set has changed: tell the controller when there is one. */
  | { readonly type: 'report' };

/** Time and chance of one step. */
export interface StepContext {
  /** Epoch ms. */
  readonly now: number;
  /** 64 random hex digits, new at every call. */
  readonly newSecret: () => string;
}
