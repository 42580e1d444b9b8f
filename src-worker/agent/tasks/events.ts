import type { GangGo, TaskAssignment, TaskReport, TaskResult, TaskUsage, Work } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';
import type { EndReport, FailedOutcome, TaskRules } from './state.ts';

/** What hosts say of tasks: reports that do not know of epochs. */
export type HostReport =
  | {
      readonly type: 'started';
      readonly taskId: TaskId;
      readonly host?: string;
      readonly ports?: readonly number[];
    }
  | { readonly type: 'progress'; readonly taskId: TaskId; readonly fraction: number }
  | {
      readonly type: 'done';
      readonly taskId: TaskId;
      readonly result: TaskResult;
      readonly usage: TaskUsage;
      readonly output: string;
    }
  | {
      readonly type: 'failed';
      readonly taskId: TaskId;
      readonly outcome: FailedOutcome;
      readonly error: ErrorBody;
      readonly exitCode: number | null;
      readonly usage: TaskUsage | null;
      readonly output: string;
    };

/** Facts, past tense; each is applied at `now`. */
export type TasksEvent =
  | {
      readonly type: 'tasks';
      readonly works: readonly { readonly jobId: JobId; readonly work: Work }[];
      readonly start: readonly TaskAssignment[];
      readonly go: readonly GangGo[];
      readonly cancel: readonly TaskId[];
      readonly settled: readonly TaskId[];
    }
  | { readonly type: 'heard'; readonly reports: readonly HostReport[] }
  | { readonly type: 'welcome' }
  | { readonly type: 'ack' }
  | { readonly type: 'session_lost' }
  | { readonly type: 'rules'; readonly rules: TaskRules }
  | { readonly type: 'tick' }
  | { readonly type: 'shutdown' };

export interface TaskToStart {
  readonly assignment: TaskAssignment;
  readonly work: Work;
}

/** Wishes, imperative, executed in order. None of them answers but by events. */
export type TasksCommand =
  /** To their hosts, in this order. */
  | { readonly type: 'start'; readonly tasks: readonly TaskToStart[] }
  /** Its whole tree, politely first. */
  | { readonly type: 'stop'; readonly taskIds: readonly TaskId[]; readonly graceMs: number }
  | { readonly type: 'go'; readonly go: GangGo }
  /** Whether what runs gives the machine's people the processor first. */
  | { readonly type: 'setPriority'; readonly low: boolean }
  /** To the controller, if there is one now. */
  | { readonly type: 'report'; readonly reports: readonly TaskReport[] }
  | {
      readonly type: 'journal';
      readonly ends: readonly EndReport[];
      readonly settled: readonly TaskId[];
    }
  /** No task of these jobs is here any more: what was laid out for them can go. */
  | { readonly type: 'dropJobs'; readonly jobIds: readonly JobId[] };
