import type { BootId, DeploymentId, EngineId, JobId, NodeId } from '#shared/lib/ids.ts';
import type { LendState } from '#shared/domain/lend.ts';
import type { Address, Hardware, Telemetry } from '#shared/domain/node.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { DeploymentRequest } from '#shared/domain/deployment.ts';
import type { ModelInfo } from '#shared/domain/model-info.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { ReplicaPlan } from '../placement/types.ts';
import type { JobRecord } from './job-state.ts';

/**
 * What the controller knows. Immutable: `apply` returns a new value that shares what did not change, so
 * identity tells what has to be written. `durable` parts are in SQLite, `live` parts are rebuilt from sessions.
 */
export interface ControllerState {
  readonly startedAt: number;
  readonly nodes: ReadonlyMap<NodeId, NodeRecord>;
  readonly removedNodes: ReadonlyMap<NodeId, RemovedNode>;
  readonly deployments: ReadonlyMap<DeploymentId, DeploymentRecord>;
  /** In the order of their submission. */
  readonly jobs: ReadonlyMap<JobId, JobRecord>;
}

export interface RemovedNode {
  readonly id: NodeId;
  readonly name: string;
  readonly removedAt: number;
}

export interface NodeRecord {
  readonly durable: DurableNode;
  readonly live: LiveNode;
}

export interface DurableNode {
  readonly id: NodeId;
  readonly name: string;
  readonly joinedAt: number;
  /** Desired: written by the controller. */
  readonly drain: Drain | null;
  /** Desired: since when a person at the controller wants no new work there. */
  readonly pausedAt: number | null;
  /** Observed: what the last hello said. */
  readonly bootId: BootId | null;
  readonly facts: NodeFacts | null;
  /** The last session ended with a goodbye. */
  readonly saidGoodbye: boolean;
  /** When the last session was opened or ended; heartbeats are not written. */
  readonly lastContactAt: number | null;
}

export interface Drain {
  readonly startedAt: number;
  readonly deadlineAt: number;
  readonly completedAt: number | null;
}

export interface NodeFacts {
  readonly version: string;
  readonly engineBuildId: string | null;
  /** Why there is no usable engine directory, when engineBuildId is null. */
  readonly engineProblem: string | null;
  readonly hardware: Hardware;
  readonly addresses: readonly Address[];
  /** Names the installation of the system (see `helloFrame.machine`); null: not known. */
  readonly machine: string | null;
}

export interface LiveNode {
  readonly session: { readonly id: number; readonly remoteAddress: string; readonly openedAt: number } | null;
  /** Last frame, or the controller's start. */
  readonly heardAt: number;
  readonly lost: boolean;
  readonly telemetry: Telemetry | null;
  readonly problems: readonly string[];
  /** What its owner's rules say; null: it has none to say. */
  readonly lend: LendState | null;
  /** What it can compute for jobs; null: it has not said. */
  readonly compute: ComputeFacts | null;
  /** When it last said something new of what it does for others. */
  readonly rulesAt: number;
  /** Since when, by this clock, its owner's rules hold it back: what runs there has to go. */
  readonly heldBackSince: number | null;
  /** The same for its models alone, which have to go while other work may stay. */
  readonly modelsHeldBackSince: number | null;
  /** When nothing of the covey was left on a machine that is held back; null: not yet, or it is lent. */
  readonly clearedAt: number | null;
  readonly engines: ReadonlyMap<EngineId, EngineObservation>;
  /** Since when each engine's CPU time has not moved, for the stall rule. */
  readonly cpuStillSince: ReadonlyMap<EngineId, number>;
}

/** Where a model's file is on a node, as resolved when the load was asked for. */
export interface ModelFile {
  readonly path: string;
  readonly hash: string;
}

export type DeploymentPhase = 'waiting' | 'loading' | 'ready' | 'draining' | 'unloading' | 'failed';

export interface DeploymentRecord {
  readonly id: DeploymentId;
  readonly model: string;
  readonly info: ModelInfo;
  readonly files: ReadonlyMap<NodeId, ModelFile>;
  readonly request: DeploymentRequest;
  readonly createdAt: number;
  /** Desired: false once unload was asked for. */
  readonly wanted: boolean;
  readonly phase: DeploymentPhase;
  readonly reason: ErrorBody | null;
  /** Of the newest replica; rises with every placement and fences late reports. */
  readonly epoch: number;
  readonly replica: Replica | null;
  readonly failures: readonly { readonly at: number; readonly error: ErrorBody }[];
  readonly nextAttemptAt: number | null;
  /** The nodes that could take work when it failed: another set is a reason to try again. */
  readonly failedWith: readonly NodeId[];
}

export interface Replica {
  readonly epoch: number;
  readonly plan: ReplicaPlan;
  readonly leader: ReplicaMember;
  /** In pipeline order. */
  readonly stages: readonly ReplicaStage[];
  readonly placedAt: number;
  /** When the leader got its assignment: all stages were ready. */
  readonly leaderAssignedAt: number | null;
  readonly readyAt: number | null;
}

export interface ReplicaMember {
  readonly nodeId: NodeId;
  readonly engineId: EngineId;
  /** The run of the worker that got it: another one has lost it. */
  readonly bootId: BootId;
}

export interface ReplicaStage extends ReplicaMember {
  readonly device: string;
  readonly layers: number;
  readonly estimatedBytes: number;
}

export function emptyState(startedAt: number): ControllerState {
  return { startedAt, nodes: new Map(), removedNodes: new Map(), deployments: new Map(), jobs: new Map() };
}

export function absentNode(heardAt: number): LiveNode {
  return {
    session: null,
    heardAt,
    lost: false,
    telemetry: null,
    problems: [],
    lend: null,
    compute: null,
    rulesAt: heardAt,
    heldBackSince: null,
    modelsHeldBackSince: null,
    clearedAt: null,
    engines: new Map(),
    cpuStillSince: new Map(),
  };
}
