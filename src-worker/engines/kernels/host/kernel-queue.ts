import { CoveyError } from '#shared/errors.ts';
import { elementBytes, type KernelCall } from '#shared/domain/kernel-call.ts';
import type { KernelPartial } from '#shared/domain/kernel-results.ts';
import type { KernelReport, KernelTask, KernelWork } from '#shared/host/kernel-host.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';

/** The native library as the queue uses it. */
export interface KernelRunner {
  /** Maps the files of a job. Throws CoveyError. */
  open(work: KernelWork): OpenWork;
}
export interface OpenWork {
  /** @throws CoveyError `cancelled` when the signal aborts, else what is wrong with the input */
  run(
    call: KernelCall,
    from: number,
    to: number,
    options: {
      readonly threads: number;
      readonly signal: AbortSignal;
      readonly onProgress: (fraction: number) => void;
    },
  ): Promise<KernelPartial>;
  close(): void;
}

export interface KernelQueue {
  add(threads: number, works: readonly KernelWork[], tasks: readonly KernelTask[]): void;
  cancel(taskIds: readonly TaskId[]): void;
  forget(jobIds: readonly JobId[]): void;
}

/** Reports wait this long for others, and no more than so many. */
const flushMs = 4;
const flushCount = 128;
/** A task that takes longer is said to have started, and how far it is. */
const momentMs = 50;
const progressMs = 500;
/**
 * Handing a range to the library's threads and hearing back takes longer than reading so much of it. So many of those
 * are with it at once: threads and this one are woken for all of them together.
 */
export const smallBytes = 64 * 1024;
const smallAtOnce = 16;

interface Current {
  readonly task: KernelTask;
  readonly stopping: AbortController;
  readonly startedAt: number;
  fraction: number;
  toldAt: number | null;
}

/** Runs tasks in the order in which they came, small ones side by side, and tells of them in bundles. */
export function createKernelQueue(
  runner: KernelRunner,
  emit: (reports: readonly KernelReport[]) => void,
  now: () => number,
): KernelQueue {
  const works = new Map<JobId, KernelWork>();
  const opened = new Map<JobId, OpenWork>();
  /** Tasks that wait or run, by job. */
  const left = new Map<JobId, number>();
  /** Jobs that are over but for such tasks: their files are closed with the last. */
  const ending = new Set<JobId>();
  let waiting: KernelTask[] = [];
  /** Of `waiting`, taken already. */
  let taken = 0;
  const current = new Map<TaskId, Current>();
  let threads = 1;
  let reports: KernelReport[] = [];
  let flushedAt = 0;
  let busy = false;

  const flush = (): void => {
    flushedAt = now();
    if (reports.length === 0) return;
    const told = reports;
    reports = [];
    emit(told);
  };
  const tell = (report: KernelReport): void => {
    reports.push(report);
    if (reports.length >= flushCount || now() - flushedAt >= flushMs) flush();
  };

  const workOf = (jobId: JobId): { readonly work: KernelWork; readonly open: OpenWork } => {
    const work = works.get(jobId);
    if (!work) throw new CoveyError('internal_error', `the kernel host knows no job ${jobId}`);
    let open = opened.get(jobId);
    if (!open) {
      open = runner.open(work);
      opened.set(jobId, open);
    }
    return { work, open };
  };

  const close = (jobId: JobId): void => {
    ending.delete(jobId);
    opened.get(jobId)?.close();
    opened.delete(jobId);
    works.delete(jobId);
  };
  const taskEnded = (jobId: JobId): void => {
    const others = (left.get(jobId) ?? 1) - 1;
    if (others > 0) {
      left.set(jobId, others);
      return;
    }
    left.delete(jobId);
    if (ending.has(jobId)) close(jobId);
  };

  const runOne = async (task: KernelTask): Promise<void> => {
    const { taskId, jobId, from, to } = task;
    const stopping = new AbortController();
    const startedAt = now();
    const state: Current = { task, stopping, startedAt, fraction: 0, toldAt: null };
    current.set(taskId, state);
    try {
      const { work, open } = workOf(jobId);
      const value = await open.run(work.call, from, to, {
        threads,
        signal: stopping.signal,
        onProgress: (fraction) => (state.fraction = fraction),
      });
      tell({ type: 'done', taskId, value, wallMs: now() - startedAt });
    } catch (error) {
      tell({ type: 'failed', taskId, error: CoveyError.from(error).toBody(), wallMs: now() - startedAt });
    } finally {
      current.delete(taskId);
      taskEnded(jobId);
    }
  };

  const isSmall = ({ jobId, from, to, apart }: KernelTask): boolean => {
    const work = works.get(jobId);
    return apart !== true && work !== undefined && (to - from) * elementBytes[work.call.type] <= smallBytes;
  };
  /** What runs next, side by side; empty: nothing waits. */
  const take = (): KernelTask[] => {
    const group: KernelTask[] = [];
    for (let next = waiting[taken]; next; next = waiting[taken]) {
      const small = isSmall(next);
      if (group.length > 0 && !small) break;
      group.push(next);
      taken += 1;
      if (!small || group.length === smallAtOnce) break;
    }
    // Not one by one: that moves all that wait.
    if (taken === waiting.length || taken >= 1_024) {
      waiting = waiting.slice(taken);
      taken = 0;
    }
    return group;
  };

  const run = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    const look = setInterval(() => {
      const at = now();
      for (const one of current.values()) {
        const { taskId } = one.task;
        if (one.toldAt === null && at - one.startedAt >= momentMs) {
          one.toldAt = at;
          reports.push({ type: 'started', taskId });
        } else if (one.toldAt !== null && at - one.toldAt >= progressMs) {
          one.toldAt = at;
          reports.push({ type: 'progress', taskId, fraction: one.fraction });
        }
      }
      flush();
    }, momentMs);
    try {
      for (let group = take(); group.length > 0; group = take()) {
        await Promise.all(group.map(runOne));
        if (group[0]?.apart) flush();
      }
    } finally {
      clearInterval(look);
      busy = false;
      flush();
    }
  };

  return {
    add(wanted, newWorks, tasks) {
      threads = wanted;
      for (const work of newWorks) {
        works.set(work.jobId, work);
        ending.delete(work.jobId);
      }
      for (const task of tasks) {
        waiting.push(task);
        left.set(task.jobId, (left.get(task.jobId) ?? 0) + 1);
      }
      void run();
    },
    cancel(taskIds) {
      for (const taskId of taskIds) {
        const running = current.get(taskId);
        if (running) {
          running.stopping.abort(new CoveyError('cancelled', 'it was told to end'));
          continue;
        }
        const at = waiting.findIndex((task, index) => index >= taken && task.taskId === taskId);
        const task = waiting[at];
        if (!task) continue;
        waiting.splice(at, 1);
        taskEnded(task.jobId);
        const error = { code: 'cancelled', message: 'it was told to end' } as const;
        reports.push({ type: 'failed', taskId, error, wallMs: 0 });
      }
      flush();
    },
    forget(jobIds) {
      for (const jobId of jobIds) {
        if (left.has(jobId)) ending.add(jobId);
        else close(jobId);
      }
    },
  };
}
