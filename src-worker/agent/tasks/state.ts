import type { TaskAssignment, TaskReport, Work } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';

/** What the tasks of a worker are measured by; fixed for one boot. */
export interface TasksConfig {
  /** How long a program gets between the polite and the forced end. */
  readonly stopGraceMs: number;
  /** How long work may go on after this machine has begun to give way. */
  readonly giveWayMs: number;
  /** Kernel tasks that are with their host at once, the running one included: none of them waits for a message. */
  readonly handOver: number;
  /** An end that was not settled for so long is written down, so that it outlives this program. */
  readonly journalAfterMs: number;
  /** And told again after so long. */
  readonly repeatMs: number;
}

/** What the owner lets run here now, as far as it was found possible. */
export interface TaskRules {
  /** null: the machine is lent; else since when it is not. */
  readonly awaySince: number | null;
  /** Why it is not lent, in sentences; empty when it is. */
  readonly why: string;
  /** Processors for work of others, >= 1. */
  readonly cpus: number;
  /** Why there are no kernels here; null: there are. The same for commands, their network, and inference. */
  readonly noKernels: ErrorBody | null;
  readonly noCommands: ErrorBody | null;
  readonly noNetwork: ErrorBody | null;
  readonly noInference: ErrorBody | null;
}

export type EndReport = Extract<TaskReport, { type: 'done' | 'failed' }>;
export type FailedOutcome = Extract<TaskReport, { type: 'failed' }>['outcome'];

/** A task that has not ended. */
export interface LiveTask {
  readonly assignment: TaskAssignment;
  readonly work: Work;
  /** `waiting`: for its turn. `handed`: its host has it, and it holds its processors. `running`: its host began. */
  readonly phase: 'waiting' | 'handed' | 'running';
  readonly handedAt: number | null;
  readonly startedAt: number | null;
  /** gang: when all ranks were there; its time runs from then. */
  readonly wentAt: number | null;
  /** gang: where this rank can be reached. */
  readonly reachable: { readonly host: string; readonly ports: readonly number[] } | null;
  /** It is being ended, and its end is called this unless it had finished. */
  readonly verdict: { readonly outcome: FailedOutcome; readonly error: ErrorBody } | null;
}

/** A task that has ended, kept until the controller has recorded it. */
export interface EndedTask {
  readonly report: EndReport;
  readonly endedAt: number;
  readonly toldAt: number;
  readonly journalled: boolean;
}

export interface TasksState {
  readonly config: TasksConfig;
  /** In the order in which they came. */
  readonly live: ReadonlyMap<TaskId, LiveTask>;
  readonly ended: ReadonlyMap<TaskId, EndedTask>;
  /** Of jobs that have live tasks. */
  readonly works: ReadonlyMap<JobId, Work>;
  readonly connected: boolean;
  /** Of the controller's last word; null before the first. */
  readonly lastAckAt: number | null;
  readonly rules: TaskRules;
  readonly closing: boolean;
}

export function initialTasksState(
  config: TasksConfig,
  rules: TaskRules,
  kept: readonly EndReport[],
  now: number,
): TasksState {
  return {
    config,
    live: new Map(),
    ended: new Map(
      kept.map((report) => [report.taskId, { report, endedAt: now, toldAt: now, journalled: true }]),
    ),
    works: new Map(),
    connected: false,
    lastAckAt: null,
    rules,
    closing: false,
  };
}
