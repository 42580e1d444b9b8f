import type { DatasetWork, Program, Range, Seek, TaskUsage } from '../domain/task.ts';
import type { ErrorBody } from '../errors.ts';
import type { TaskId } from '../lib/ids.ts';

/**
 * Parent <-> task runner: one child process that starts the programs of tasks, watches them and reads datasets for
 * them, so that their output and their number are no load on the worker itself. Its one peer is our own main process,
 * so these are types and no schemas. Everything it started ends with it.
 */

/** How programs are kept apart from the machine; found out once (`computeFacts`). */
export type Sandbox = { readonly kind: 'bubblewrap'; readonly path: string } | { readonly kind: 'none' };

/** How their use is limited. `directories`: where groups are made, by controller. */
export type LimitMethod =
  | { readonly kind: 'cgroup2'; readonly directory: string }
  | { readonly kind: 'cgroup1'; readonly directories: Readonly<Record<string, string>> }
  | { readonly kind: 'rlimits' }
  | { readonly kind: 'job-object' };

export interface RunnerInit {
  readonly type: 'init';
  /** covey-launch of the engine directory; null: there is none, and only datasets are read. */
  readonly launcher: string | null;
  /** Directories that programs must not see, whatever else they see. */
  readonly hidden: readonly string[];
  readonly sandbox: Sandbox;
  readonly limits: LimitMethod;
}

export interface ProgramTask {
  readonly kind: 'program';
  readonly taskId: TaskId;
  readonly index: number;
  readonly count: number | null;
  readonly attempt: number;
  readonly range: Range | null;
  readonly program: Program;
  /** Of this task alone, there, empty but for `work` when inputs were copied there. Removed by the parent. */
  readonly directory: string;
  /** Laid out once for all tasks of the job, to be seen read-only at `path` in the working directory. */
  readonly mounts: readonly { readonly source: string; readonly path: string }[];
  readonly outputs: readonly { readonly path: string; readonly optional: boolean }[];
  /** `map`: what the program reads, and that what it prints is the result. */
  readonly feed: {
    readonly dataset: DatasetWork;
    readonly path: string;
    readonly seek: Seek | null;
    readonly per: 'chunk' | 'record';
  } | null;
  /** More variables, of a gang's rank. */
  readonly variables: Readonly<Record<string, string>>;
}

export interface IndexTask {
  readonly kind: 'index';
  readonly taskId: TaskId;
  readonly dataset: DatasetWork;
  readonly path: string;
}

export type RunnerCommand =
  | RunnerInit
  | { readonly type: 'run'; readonly task: ProgramTask | IndexTask }
  | { readonly type: 'stop'; readonly taskId: TaskId; readonly graceMs: number }
  | { readonly type: 'priority'; readonly low: boolean }
  /** Answered by `log` with the same number. */
  | { readonly type: 'read-log'; readonly request: number; readonly taskId: TaskId };

/** A file or directory of a task's directory that is to become an artifact. */
export interface MadeOutput {
  readonly name: string;
  readonly path: string;
  readonly kind: 'file' | 'tree';
}

export type RunnerEvent =
  | { readonly type: 'hello' }
  | { readonly type: 'started'; readonly taskId: TaskId }
  | { readonly type: 'progress'; readonly taskId: TaskId; readonly fraction: number }
  | {
      readonly type: 'done';
      readonly taskId: TaskId;
      readonly value: unknown;
      readonly outputs: readonly MadeOutput[];
      readonly usage: TaskUsage;
      readonly output: string;
    }
  | {
      readonly type: 'failed';
      readonly taskId: TaskId;
      /** `refused`: this machine cannot run it, another may. */
      readonly outcome: 'failed' | 'crashed' | 'lost' | 'refused';
      readonly error: ErrorBody;
      readonly exitCode: number | null;
      readonly usage: TaskUsage;
      readonly output: string;
    }
  | {
      readonly type: 'log';
      readonly request: number;
      readonly output: string;
      readonly truncated: boolean;
    };
