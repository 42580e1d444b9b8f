import type { KernelEvent, KernelReport, KernelTask, KernelWork } from '#shared/host/kernel-host.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { HostProcess, ProcessHost } from '../../../src-main/nodejs/process-host/process-host.ts';
import { setProgramPriority } from '../priority.ts';

export type KernelLibraryFacts = Extract<KernelEvent, { type: 'hello' }>;

/** What is heard of a task: its host's words, or that its host is gone. */
export type KernelNews =
  | KernelReport
  | {
      readonly type: 'gone';
      readonly taskId: TaskId;
      readonly outcome: 'crashed' | 'lost';
      readonly error: ErrorBody;
    };

export interface KernelSupervisor {
  run(threads: number, works: readonly KernelWork[], tasks: readonly KernelTask[]): void;
  cancel(taskIds: readonly TaskId[]): void;
  forget(jobIds: readonly JobId[]): void;
  setPriority(low: boolean): void;
  /** What the library can do, by starting a host once; resolves with a reason when it tells nothing in time. */
  facts(): Promise<KernelLibraryFacts>;
  close(): void;
}

/** A host that has not said what it has by then is ended, with what waits for it. */
const helloMs = 15_000;
/** A host that has had nothing to do for so long ends: it is there again in a tenth of a second. */
const idleMs = 60_000;
const pingMs = 5_000;
/** A host that leaves so many pings in a row unanswered hangs. (Counted, as clocks go on while a computer sleeps.) */
const unansweredPings = 6;

/**
 * Keeps a kernel host while there is work for it. When one dies:
 * 1. The task that it is known to have been computing ends (as `crashed`; as `lost` when somebody killed the process),
 *    and the others go to the next host.
 * 2. Where it may have been one of several, all go to the next host, each apart: then it is known.
 * One that no longer answers is ended, and its task with it as if it had crashed.
 */
export function createKernelSupervisor(options: {
  readonly processHost: ProcessHost;
  readonly engineDirectory: string | null;
  readonly logger: Logger;
  readonly onNews: (news: readonly KernelNews[]) => void;
}): KernelSupervisor {
  const { logger } = options;
  interface Host {
    readonly process: HostProcess;
    /** Jobs that it knows. */
    readonly knows: Set<JobId>;
    greeted: boolean;
    /** Pings since it was last heard. */
    unanswered: number;
  }
  let host: Host | null = null;
  let low = false;
  let threads = 1;
  let closed = false;
  let idle: NodeJS.Timeout | null = null;
  const works = new Map<JobId, KernelWork>();
  /** With a host, in the order in which it runs them. */
  const pending = new Map<TaskId, KernelTask>();
  /** Of those, what a host said it computes. */
  const started = new Set<TaskId>();
  let asking: ((facts: KernelLibraryFacts) => void)[] = [];
  let known: KernelLibraryFacts | null = null;

  const answer = (facts: KernelLibraryFacts): void => {
    for (const resolve of asking) resolve(facts);
    asking = [];
  };
  const rest = (): void => {
    if (idle) clearTimeout(idle);
    idle = null;
    if (pending.size > 0 || asking.length > 0) return;
    idle = setTimeout(() => {
      const ending = host;
      host = null;
      ending?.process.kill();
    }, idleMs);
    idle.unref();
  };

  const start = (): Host => {
    const process = options.processHost.fork('kernel-host', { label: 'kernels' });
    const started: Host = { process, knows: new Set(), greeted: false, unanswered: 0 };
    process.onMessage((message) => hear(started, message as KernelEvent));
    const late = setTimeout(() => {
      if (!started.greeted) process.kill();
    }, helloMs);
    late.unref();
    const pulse = setInterval(() => ping(started), pingMs);
    pulse.unref();
    process.onExit(({ detail, signal }) => {
      clearTimeout(late);
      clearInterval(pulse);
      gone(started, detail, signal);
    });
    process.send({ type: 'init', engineDirectory: options.engineDirectory });
    return started;
  };

  const hangs = ({ unanswered }: Host): boolean => unanswered > unansweredPings;
  const ping = (to: Host): void => {
    if (!to.greeted || hangs(to)) return;
    to.unanswered += 1;
    if (hangs(to)) to.process.kill();
    else to.process.send({ type: 'ping' });
  };

  const hear = (from: Host, event: KernelEvent): void => {
    from.unanswered = 0;
    if (event.type === 'pong') return;
    if (event.type === 'hello') {
      from.greeted = true;
      known = event;
      if (low && from.process.pid !== undefined) setProgramPriority(from.process.pid, true);
      answer(event);
      rest();
      return;
    }
    const news: KernelNews[] = [];
    for (const report of event.reports) {
      if (!pending.has(report.taskId)) continue;
      if (report.type === 'started') started.add(report.taskId);
      if (report.type === 'done' || report.type === 'failed') {
        pending.delete(report.taskId);
        started.delete(report.taskId);
      }
      news.push(report);
    }
    if (news.length > 0) options.onNews(news);
    rest();
  };

  const gone = (ended: Host, detail: string, signal: string | null): void => {
    if (host !== ended) return;
    host = null;
    if (closed) return;
    logger.warn('the kernel host has ended', { reason: detail, hung: hangs(ended) });
    if (!ended.greeted) {
      const problem = `the kernel host ${detail} before it began`;
      answer({ type: 'hello', library: null, problem });
      const error = { code: 'kernels_unavailable', message: problem } as const;
      const lost = [...pending.keys()];
      pending.clear();
      if (lost.length > 0) {
        options.onNews(lost.map((taskId) => ({ type: 'gone', taskId, outcome: 'lost', error })));
      }
      return;
    }
    const [first] = pending.values();
    if (first === undefined) return;
    const known =
      first.apart === true || pending.size === 1 || (started.size === 1 && started.has(first.taskId));
    started.clear();
    // 2.
    if (!known) {
      for (const task of pending.values()) pending.set(task.taskId, { ...task, apart: true });
      send([...pending.values()]);
      return;
    }
    // 1.
    pending.delete(first.taskId);
    // A library that fails gets another signal, or ends with a code.
    const killed = signal === 'SIGKILL' || signal === 'SIGTERM';
    const outcome = killed && !hangs(ended) ? 'lost' : 'crashed';
    const what = hangs(ended) ? 'did not answer any more' : detail;
    const error = { code: 'task_crashed', message: `the kernel host ${what}` } as const;
    options.onNews([{ type: 'gone', taskId: first.taskId, outcome, error }]);
    send([...pending.values()]);
  };

  const send = (tasks: readonly KernelTask[]): void => {
    if (tasks.length === 0 || closed) return;
    let to: Host;
    try {
      to = host ??= start();
    } catch (error) {
      const problem = `the kernel host could not be started: ${String(error)}`;
      for (const { taskId } of tasks) pending.delete(taskId);
      options.onNews(
        tasks.map(({ taskId }) => ({
          type: 'gone',
          taskId,
          outcome: 'lost',
          error: { code: 'kernels_unavailable', message: problem },
        })),
      );
      return;
    }
    const unknown: KernelWork[] = [];
    for (const { jobId } of tasks) {
      const work = works.get(jobId);
      if (!work || to.knows.has(jobId)) continue;
      to.knows.add(jobId);
      unknown.push(work);
    }
    to.process.send({ type: 'run', threads, works: unknown, tasks });
    rest();
  };

  return {
    run(wanted, newWorks, tasks) {
      threads = wanted;
      for (const work of newWorks) works.set(work.jobId, work);
      for (const task of tasks) pending.set(task.taskId, task);
      send(tasks);
    },
    cancel(taskIds) {
      const here = taskIds.filter((taskId) => pending.has(taskId));
      if (here.length > 0) host?.process.send({ type: 'cancel', taskIds: here });
    },
    forget(jobIds) {
      for (const jobId of jobIds) {
        works.delete(jobId);
        host?.knows.delete(jobId);
      }
      host?.process.send({ type: 'forget', jobIds });
    },
    setPriority(wanted) {
      low = wanted;
      if (host?.process.pid !== undefined) setProgramPriority(host.process.pid, low);
    },
    async facts() {
      if (known) return known;
      const told = new Promise<KernelLibraryFacts>((resolve) => asking.push(resolve));
      let timer: NodeJS.Timeout | null = null;
      const late = new Promise<KernelLibraryFacts>((resolve) => {
        timer = setTimeout(() => {
          resolve({ type: 'hello', library: null, problem: 'the kernel host did not answer in time' });
        }, helloMs);
      });
      try {
        host ??= start();
        return await Promise.race([told, late]);
      } catch (error) {
        return { type: 'hello', library: null, problem: String(error) };
      } finally {
        if (timer) clearTimeout(timer);
      }
    },
    close() {
      closed = true;
      if (idle) clearTimeout(idle);
      host?.process.kill();
      host = null;
    },
  };
}
