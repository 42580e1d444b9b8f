import type { JobId, NodeId, TaskId } from '#shared/lib/ids.ts';
import type { JobResult } from '#shared/domain/job.ts';
import type { ComputeFacts, Range, TaskReport } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { JobDefinition, NodeDistribution } from './job-state.ts';

/** Facts about jobs; `apply-jobs` says what each changes. Part of `ControllerEvent`. */
export type JobEvent =
  /** By the service, with everything resolved. */
  | {
      readonly type: 'job-submitted';
      readonly definition: JobDefinition;
      readonly distribution: NodeDistribution;
    }
  | { readonly type: 'job-cancel-requested'; readonly jobId: JobId }
  /** Partitions that failed, or were cancelled, are tried again with their attempts counted anew. */
  | { readonly type: 'job-retry-requested'; readonly jobId: JobId }
  /** What nobody has begun is shared out anew. */
  | { readonly type: 'distribution-set'; readonly jobId: JobId; readonly distribution: NodeDistribution }
  /** A finished job's record and results go. `old`: there were too many. */
  | { readonly type: 'job-removed'; readonly jobId: JobId; readonly cause: 'person' | 'old' }
  /** By the scheduler. */
  | { readonly type: 'tasks-assigned'; readonly assignments: readonly Assignment[] }
  /** By a worker: taken as far as each task is the partition's and the epoch its own. */
  | { readonly type: 'tasks-reported'; readonly nodeId: NodeId; readonly reports: readonly TaskReport[] }
  /** By the controller itself: lost with their machine, withdrawn from it, out of time. */
  | { readonly type: 'tasks-ended'; readonly ends: readonly TaskEnd[] }
  /** The artifacts of these results are in the controller's store: they are done. */
  | { readonly type: 'partitions-fetched'; readonly partitions: readonly PartitionRef[] }
  /** The bytes cannot be had any more: the attempt is lost. */
  | { readonly type: 'partition-fetch-failed'; readonly partition: PartitionRef; readonly error: ErrorBody }
  /** manual: a machine is gone, its share is everybody's who is named. */
  | { readonly type: 'share-released'; readonly jobId: JobId; readonly nodeId: NodeId }
  /** All ranks of this start are there and told of each other. */
  | { readonly type: 'gang-started'; readonly jobId: JobId; readonly start: number }
  /** The end of phase `collecting`. */
  | { readonly type: 'result-collected'; readonly jobId: JobId; readonly result: JobResult }
  /** It cannot go on, whatever its partitions: what runs is cancelled. */
  | { readonly type: 'job-failed'; readonly jobId: JobId; readonly error: ErrorBody }
  | { readonly type: 'compute-observed'; readonly nodeId: NodeId; readonly compute: ComputeFacts };

export interface PartitionRef {
  readonly jobId: JobId;
  readonly index: number;
  readonly epoch: number;
}

/** A partition goes to a machine. With the index after the last one it is cut off the rest now. */
export interface Assignment extends PartitionRef {
  readonly taskId: TaskId;
  readonly attempt: number;
  readonly nodeId: NodeId;
  readonly range: Range | null;
  /** manual: of whose share it is cut. */
  readonly owner: NodeId | null;
  readonly speculative: boolean;
}

export interface TaskEnd extends PartitionRef {
  readonly taskId: TaskId;
  /** `cancelled`: withdrawn before it ran, which counts as nothing. */
  readonly outcome: 'lost' | 'failed' | 'cancelled';
  readonly error: ErrorBody;
  /** It is not tried again before; null: at once. */
  readonly notBeforeAt: number | null;
}
