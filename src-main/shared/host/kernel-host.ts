import type { KernelCall, KernelName } from '../domain/kernel-call.ts';
import type { KernelPartial } from '../domain/kernel-results.ts';
import type { ErrorBody } from '../errors.ts';
import type { JobId, TaskId } from '../lib/ids.ts';

/**
 * Parent <-> kernel host: one child process that has the native library and runs one task after the other, each with
 * all threads it was given; of those that take no time some at once. Tasks may take less time than a message, so both
 * sides speak of many at once. Its one peer is our own main process, so these are types and no schemas.
 */
export interface KernelWork {
  readonly jobId: JobId;
  readonly call: KernelCall;
  /** Files of elements, read-only. */
  readonly input: string;
  readonly second: string | null;
}

export interface KernelTask {
  readonly taskId: TaskId;
  readonly jobId: JobId;
  /** Elements [from, to). */
  readonly from: number;
  readonly to: number;
  /** A host has ended with this one or another: nothing runs beside it, and its end is told before the next begins. */
  readonly apart?: boolean;
}

export type KernelCommand =
  | { readonly type: 'init'; readonly engineDirectory: string | null }
  /** `works` has those of the jobs that this process has not heard of. */
  | {
      readonly type: 'run';
      readonly threads: number;
      readonly works: readonly KernelWork[];
      readonly tasks: readonly KernelTask[];
    }
  | { readonly type: 'cancel'; readonly taskIds: readonly TaskId[] }
  /** Answered by `pong` at once, whatever is being computed. */
  | { readonly type: 'ping' }
  /** No task of these jobs comes any more: their files may be closed. */
  | { readonly type: 'forget'; readonly jobIds: readonly JobId[] };

export type KernelReport =
  /** Only of a task that takes longer than a moment. */
  | { readonly type: 'started'; readonly taskId: TaskId }
  | { readonly type: 'progress'; readonly taskId: TaskId; readonly fraction: number }
  | {
      readonly type: 'done';
      readonly taskId: TaskId;
      readonly value: KernelPartial;
      readonly wallMs: number;
    }
  | { readonly type: 'failed'; readonly taskId: TaskId; readonly error: ErrorBody; readonly wallMs: number };

export type KernelEvent =
  | {
      readonly type: 'hello';
      readonly library: { readonly isa: string; readonly kernels: readonly KernelName[] } | null;
      /** Why there is none. */
      readonly problem: string | null;
    }
  | { readonly type: 'reports'; readonly reports: readonly KernelReport[] }
  | { readonly type: 'pong' };
