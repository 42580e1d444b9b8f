import type { JobId, NodeId, TaskId } from '#shared/lib/ids.ts';
import type { JobKind, JobSpec } from '#shared/domain/job-spec.ts';
import type { JobResult } from '#shared/domain/job.ts';
import type { KernelName } from '#shared/domain/kernel-call.ts';
import type { Range, Seek, TaskUsage, Work } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';

/**
 * Jobs as the controller knows them. A submission is one event, committed before the client gets its answer:
 *
 *   runtime.commit({ type: 'job-submitted', at, definition, distribution: { mode: 'auto' } })
 *
 * with everything resolved in `definition`: nodes to ids, artifacts to stakes, defaults filled in. From there on:
 * 1. With `definition.index` one hidden task reads the dataset (`preparation`); its result gives `course.total` and
 *    `course.seeks`.
 * 2. Partitions are cut, assigned, reported, tried again; `scheduler/jobs` decides, `apply-jobs` records.
 * 3. A partition whose result has artifacts is `fetching` until the service says `partitions-fetched` (or
 *    `partition-fetch-failed`, which is a lost attempt).
 * 4. When no partition is left, phase is `collecting`: the service reads the partial results from the store, combines
 *    them and says `result-collected`, or `job-failed` when they do not combine.
 * Results and what tasks printed are in SQLite only (`store.jobs`): there may be gigabytes of them.
 */
export interface JobRecord {
  /** As submitted; never changes. */
  readonly definition: JobDefinition;
  /** Durable and small: what has become of the job as a whole. */
  readonly course: JobCourse;
  /** The task that reads the dataset, as a partition with index `preparationIndex`; null: there is none. */
  readonly preparation: PartitionRecord | null;
  /**
   * By index. Counted ones are all here from the start, others since they were cut off; of a job that has ended,
   * those at the end that never began are not (`partitionCount`, `partitionAt`).
   */
  readonly partitions: readonly PartitionRecord[];
  /** Follows from all the above (`tallyOf`); kept up to date so that nothing has to be counted. */
  readonly tally: JobTally;
}

/** No partition has it: ids of tasks hold at most 7 digits of index. */
export const preparationIndex = 9_999_999;

export interface JobDefinition {
  readonly id: JobId;
  /** What its submission was marked with: the same mark again is the same submission, asked for twice. */
  readonly submissionKey?: string | undefined;
  readonly name: string;
  readonly kind: JobKind;
  /** As it was asked for, without the values of secrets. */
  readonly spec: JobSpec;
  /** For the workers; holds the secrets. */
  readonly work: Work;
  /** Of kind `index`: has to be done first, and tells `total`. */
  readonly index: Extract<Work, { kind: 'index' }> | null;
  /** Units of input; null: `index` tells. Without ranges the number of partitions. */
  readonly total: number | null;
  readonly unit: 'elements' | 'records' | 'items' | 'ranks';
  readonly division: Division;
  readonly demand: Demand;
  readonly place: Place;
  readonly retry: {
    readonly attempts: number;
    readonly backoffMs: number;
    /** Those worth another attempt; null: all. */
    readonly exitCodes: readonly number[] | null;
  };
  /** Of one attempt. */
  readonly timeoutMs: number;
  readonly exclusive: boolean;
  readonly speculative: boolean;
  readonly priority: number;
  /** All partitions are ranks that start together; `division` counts them, without ranges. */
  readonly gang: { readonly perNode: number | null; readonly restarts: number } | null;
  /** Known when it was submitted, such as that it cannot be divided. */
  readonly notes: readonly string[];
  readonly createdAt: number;
}

export type Division =
  /**
   * So many partitions. `ranged`: equal ranges of the input, fewer when it has fewer units; otherwise they have an
   * index only (commands, ranks).
   */
  | { readonly mode: 'counted'; readonly count: number; readonly ranged: boolean }
  /** By speed, in units: never under `smallest` but for the rest, never over `largest`. */
  | { readonly mode: 'auto'; readonly smallest: number; readonly largest: number };

/** What one task takes of a machine. */
export interface Demand {
  readonly cpus: number;
  readonly memoryBytes: number;
  /** It uses all lent processors, whatever `cpus` says: one at a time. */
  readonly wholeNode: boolean;
}

/** What a machine must be and allow. */
export interface Place {
  readonly nodes: readonly NodeId[] | null;
  readonly os: 'linux' | 'darwin' | 'win32' | null;
  readonly arch: 'x64' | 'arm64' | null;
  readonly kernel: KernelName | null;
  readonly commands: boolean;
  readonly network: boolean;
}

export type NodeDistribution =
  | { readonly mode: 'auto' }
  /** Positive weights; machines that are not named get nothing. */
  | { readonly mode: 'manual'; readonly shares: readonly NodeWeight[] };

export interface NodeWeight {
  readonly nodeId: NodeId;
  readonly weight: number;
}

/** `statusOf` makes it a `JobStatus`: `collecting` shows as running. */
export type JobPhase =
  'preparing' | 'queued' | 'running' | 'collecting' | 'cancelling' | 'done' | 'failed' | 'cancelled';

export interface JobCourse {
  readonly phase: JobPhase;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  /** Told to end: what runs is cancelled, and then it is this; null: it goes on. */
  readonly ending: { readonly at: number; readonly as: 'cancelled' | 'failed' } | null;
  readonly total: number | null;
  readonly seeks: readonly Seek[];
  readonly distribution: NodeDistribution;
  /** The first failure that counts. */
  readonly error: ErrorBody | null;
  readonly result: JobResult | null;
  /** Starts of the gang so far, and when the newest was told to go. */
  readonly gang: GangCourse | null;
}

export interface GangCourse {
  readonly start: number;
  readonly goAt: number | null;
  /** Starts that were given up before all ranks were there. */
  readonly incomplete: number;
  /** One rank has ended without a result: all others are being ended; null: they go on. */
  readonly stopping: GangStop | null;
}

export interface GangStop {
  readonly at: number;
  /** Of the first rank that ended, with its rank and machine in the words. */
  readonly error: ErrorBody;
  /** Nothing to do with its work. */
  readonly lost: boolean;
  /** That rank; not there: stopped by a version that did not keep it. */
  readonly rank?: number | undefined;
}

export type PartitionPhase = 'waiting' | 'active' | 'fetching' | 'done' | 'failed' | 'cancelled';

export interface PartitionRecord {
  readonly index: number;
  /** In units of input; null: it has only its index. */
  readonly range: Range | null;
  readonly phase: PartitionPhase;
  /** Of the newest assignment; 0: none yet. */
  readonly epoch: number;
  /** Number of the newest attempt; numbers are never used again. */
  readonly attempt: number;
  /** Attempts that failed or crashed, and that were lost, since it was last asked for. */
  readonly failures: number;
  readonly losses: number;
  /** manual: whose share it is of; null: any machine may take it. */
  readonly owner: NodeId | null;
  /** waiting: not before. */
  readonly nextAttemptAt: number | null;
  /** Why the last attempt ended without a result. */
  readonly error: ErrorBody | null;
  readonly finishedAt: number | null;
  /** Attempts in the order of their assignment, the oldest ended ones left out beyond `keptTasks`. */
  readonly tasks: readonly TaskRecord[];
}

export const keptTasks = 32;

/** One attempt. `running` includes waiting at the worker. */
export interface TaskRecord {
  readonly id: TaskId;
  readonly attempt: number;
  readonly epoch: number;
  readonly nodeId: NodeId;
  readonly speculative: boolean;
  readonly outcome: TaskOutcome;
  readonly assignedAt: number;
  /** Live only, like `progress`: after a restart the worker has not said it again. */
  readonly startedAt: number | null;
  /** 0..1 */
  readonly progress: number;
  readonly endedAt: number | null;
  readonly error: ErrorBody | null;
  readonly exitCode: number | null;
  readonly usage: TaskUsage | null;
  /** A gang's rank, once it is there. */
  readonly reach: { readonly host: string; readonly ports: readonly number[] } | null;
}

export type TaskOutcome =
  'running' | 'done' | 'failed' | 'crashed' | 'lost' | 'refused' | 'cancelled' | 'superseded';

/** Counted from definition, course and partitions. */
export interface JobTally {
  readonly counts: Readonly<Record<PartitionPhase, number>>;
  /** Units of partitions that are done; without ranges each partition is one. */
  readonly doneUnits: number;
  /** What nobody has begun, in order: units with `auto` division, indexes with counted partitions. */
  readonly rest: readonly Segment[];
  /** Partitions that wait for another attempt. */
  readonly again: readonly number[];
  readonly nodes: ReadonlyMap<NodeId, JobOnNode>;
}

export interface Segment {
  readonly from: number;
  readonly to: number;
  readonly owner: NodeId | null;
}

/** What one machine has done and does for a job. */
export interface JobOnNode {
  /** Attempts that run or wait there. */
  readonly active: number;
  readonly doneUnits: number;
  readonly donePartitions: number;
  /** Measured at one task, recent ones counting more; null: none has ended. */
  readonly unitsPerS: number | null;
  /** What `unitsPerS` is made of: sums in which each task counts less than the one after it. */
  readonly recent: { readonly units: number; readonly ms: number };
  /** How long a task takes there, milliseconds. */
  readonly taskMs: number | null;
  /** When it last said that it will not run this job, and why; null: it has not. */
  readonly refused: { readonly at: number; readonly error: ErrorBody } | null;
}
