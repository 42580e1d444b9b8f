import { join } from 'node:path';
import type { RunnerCommand, RunnerEvent, RunnerInit } from '#shared/host/task-runner.ts';
import type { IndexTask, ProgramTask } from '#shared/host/task-runner.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { HostProcess, ProcessHost } from '../../../src-main/nodejs/process-host/process-host.ts';
import { sweepGroups } from './limits/probe-limits.ts';
import { killWith } from './process-tree.ts';

export type RunnerNews =
  | Exclude<RunnerEvent, { type: 'hello' | 'log' }>
  /** Its runner is gone, and with it all that the task had started. */
  | { readonly type: 'gone'; readonly taskId: TaskId; readonly detail: string };

export interface RunnerSupervisor {
  run(task: ProgramTask | IndexTask): void;
  stop(taskId: TaskId, graceMs: number): void;
  setPriority(low: boolean): void;
  /** null: it does not run here. */
  readLog(taskId: TaskId): Promise<{ readonly output: string; readonly truncated: boolean } | null>;
  /** Ends it with everything that it started. */
  close(): void;
}

const idleMs = 60_000;
const logMs = 5_000;
/** A runner that has not ended a task so long after its grace hangs: it is ended, and what it runs with it. */
const hangMs = 30_000;
const sweepAgainMs = 1_000;

/** Keeps a task runner while there is work for it. */
export function createRunnerSupervisor(options: {
  readonly processHost: ProcessHost;
  readonly init: () => RunnerInit;
  /** The directories of tasks are below. */
  readonly directory: string;
  readonly logger: Logger;
  readonly onNews: (news: RunnerNews) => void;
}): RunnerSupervisor {
  let host: HostProcess | null = null;
  let low = false;
  let idle: NodeJS.Timeout | null = null;
  const running = new Set<TaskId>();
  let requests = 0;
  const reading = new Map<number, (log: { output: string; truncated: boolean } | null) => void>();

  const send = (command: RunnerCommand): void => host?.send(command);
  const rest = (): void => {
    if (idle) clearTimeout(idle);
    idle = null;
    if (running.size > 0) return;
    idle = setTimeout(() => {
      const ending = host;
      host = null;
      ending?.kill();
    }, idleMs);
    idle.unref();
  };
  const hear = (event: RunnerEvent): void => {
    if (event.type === 'hello') return;
    if (event.type === 'log') {
      reading.get(event.request)?.({ output: event.output, truncated: event.truncated });
      reading.delete(event.request);
      return;
    }
    if (!running.has(event.taskId)) return;
    if (event.type === 'done' || event.type === 'failed') running.delete(event.taskId);
    options.onNews(event);
    rest();
  };
  /** Ends what programs of a runner that is gone have started; those in a sandbox end by themselves. */
  const sweep = (): void => {
    sweepGroups(options.init().limits);
    killWith(`COVEY_OUTPUT=${join(options.directory, '/')}`);
  };
  const gone = (ended: HostProcess, detail: string): void => {
    if (host !== ended) return;
    host = null;
    options.logger.warn('the task runner has ended', { reason: detail });
    sweep();
    // A group can be removed when what was in it has ended.
    setTimeout(() => sweepGroups(options.init().limits), sweepAgainMs).unref();
    const lost = [...running];
    running.clear();
    for (const resolve of reading.values()) resolve(null);
    reading.clear();
    for (const taskId of lost) options.onNews({ type: 'gone', taskId, detail });
  };
  const start = (): void => {
    if (host) return;
    const started = options.processHost.fork('task-runner', { label: 'tasks' });
    host = started;
    started.onMessage((message) => hear(message as RunnerEvent));
    started.onExit(({ detail }) => gone(started, detail));
    send(options.init());
    send({ type: 'priority', low });
  };
  const endHung = (asked: HostProcess, taskId: TaskId): void => {
    if (host !== asked || !running.has(taskId)) return;
    options.logger.warn('the task runner did not end a task and is killed', { task: taskId });
    asked.kill();
  };
  // Of an earlier run of this worker.
  sweep();

  return {
    run(task) {
      try {
        start();
      } catch (error) {
        options.onNews({
          type: 'gone',
          taskId: task.taskId,
          detail: `could not be started: ${String(error)}`,
        });
        return;
      }
      running.add(task.taskId);
      send({ type: 'run', task });
      rest();
    },
    stop(taskId, graceMs) {
      send({ type: 'stop', taskId, graceMs });
      const asked = host;
      if (asked && running.has(taskId)) setTimeout(() => endHung(asked, taskId), graceMs + hangMs).unref();
    },
    setPriority(wanted) {
      low = wanted;
      send({ type: 'priority', low });
    },
    async readLog(taskId) {
      if (!host || !running.has(taskId)) return null;
      const request = (requests += 1);
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          reading.delete(request);
          resolve(null);
        }, logMs);
        reading.set(request, (log) => {
          clearTimeout(timer);
          resolve(log);
        });
        send({ type: 'read-log', request, taskId });
      });
    },
    close() {
      if (idle) clearTimeout(idle);
      const ending = host;
      host = null;
      ending?.kill();
    },
  };
}
