import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { GangGo, TaskResult, TaskUsage } from '#shared/domain/task.ts';
import type { LendRules } from '#shared/domain/lend.ts';
import type { KernelTask, KernelWork } from '#shared/host/kernel-host.ts';
import type { MadeOutput, ProgramTask } from '#shared/host/task-runner.ts';
import { CoveyError } from '#shared/errors.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';
import type { HostReport, TaskToStart } from '../agent/tasks/events.ts';
import type { ArtifactCache } from '../artifacts/cache.ts';
import type { KernelNews, KernelSupervisor } from '../engines/kernels/kernel-supervisor.ts';
import { removeDirectory } from '../engines/task-runner/remove-directory.ts';
import type { RunnerNews, RunnerSupervisor } from '../engines/task-runner/runner-supervisor.ts';
import { gangVariables } from './gang-variables.ts';
import { createPortReserve, type ReservedPorts } from './gang-ports.ts';
import type { DialGateway } from './inference/gateway-client.ts';
import { runInference } from './inference/run-inference.ts';
import type { StagedJob, Staging } from './staging.ts';

/** Where tasks run: brings what they need, hands them to their host, and takes what they made. */
export interface TaskHosts {
  start(tasks: readonly TaskToStart[]): void;
  stop(taskIds: readonly TaskId[], graceMs: number): void;
  go(go: GangGo): void;
  dropJobs(jobIds: readonly JobId[]): void;
  heardKernels(news: readonly KernelNews[]): void;
  heardRunner(news: RunnerNews): void;
}

/** A task that is here but not with the kernel host. */
interface Held {
  readonly task: TaskToStart;
  readonly directory: string;
  readonly stopping: AbortController;
  readonly startedAt: number;
  stagingMs: number;
  /** The runner has it, and answers. */
  running: boolean;
  /** gang: waits for its go. */
  ports: ReservedPorts | null;
  onGo: ((go: GangGo) => void) | null;
}

/** @param options.network what the owner lets programs see; null: nothing */
export function createTaskHosts(options: {
  readonly kernels: KernelSupervisor;
  readonly runner: RunnerSupervisor;
  readonly staging: Staging;
  readonly cache: ArtifactCache;
  readonly dial: DialGateway;
  /** Of this worker alone; there. */
  readonly directory: string;
  readonly threads: () => number;
  readonly network: () => LendRules['network'];
  readonly random: () => number;
  readonly report: (reports: readonly HostReport[]) => void;
}): TaskHosts {
  const { kernels, runner, staging, cache, report } = options;
  const held = new Map<TaskId, Held>();
  const portReserve = createPortReserve(options.random);
  /** Kernel tasks that wait for their input; the others are with their host. */
  const waitingKernels = new Map<TaskId, TaskToStart>();

  const fail = (
    taskId: TaskId,
    error: unknown,
    outcome?: Extract<HostReport, { type: 'failed' }>['outcome'],
  ): void => {
    const named = CoveyError.from(error);
    const wrong = named.code === 'artifact_invalid' || named.code === 'dataset_invalid';
    report([
      {
        type: 'failed',
        taskId,
        // The interface that programs may see is gone: nothing of the kind runs here until it is back.
        outcome: outcome ?? (wrong ? 'failed' : named.code === 'network_forbidden' ? 'refused' : 'lost'),
        error: named.toBody(),
        exitCode: null,
        usage: null,
        output: '',
      },
    ]);
  };

  const startKernels = (tasks: readonly TaskToStart[]): void => {
    const works = new Map<JobId, KernelWork>();
    const ready: KernelTask[] = [];
    const waiting = new Map<JobId, TaskToStart[]>();
    for (const task of tasks) {
      const { assignment, work } = task;
      const { taskId, jobId, range } = assignment;
      if (work.kind !== 'kernel' || !range) {
        fail(taskId, new CoveyError('internal_error', 'it came without a range of elements'));
        continue;
      }
      const staged = staging.ready(jobId);
      if (staged?.input == null) {
        waitingKernels.set(taskId, task);
        const others = waiting.get(jobId);
        if (others) others.push(task);
        else waiting.set(jobId, [task]);
        continue;
      }
      if (!works.has(jobId)) {
        works.set(jobId, { jobId, call: work.call, input: staged.input, second: staged.second });
      }
      ready.push({ taskId, jobId, from: range.from, to: range.to });
    }
    if (ready.length > 0) kernels.run(options.threads(), [...works.values()], ready);
    for (const [jobId, others] of waiting) {
      const [first] = others;
      if (!first) continue;
      staging.stage(jobId, first.work).then(
        () => {
          const still = others.filter(({ assignment }) => waitingKernels.delete(assignment.taskId));
          if (still.length > 0) startKernels(still);
        },
        (error: unknown) => {
          for (const { assignment } of others) {
            if (waitingKernels.delete(assignment.taskId)) fail(assignment.taskId, error);
          }
        },
      );
    }
  };

  /** Everything but kernels, from its input to the end of what this process does for it. */
  const hold = async (task: TaskToStart): Promise<void> => {
    const { assignment, work } = task;
    const { taskId, jobId } = assignment;
    const entry: Held = {
      task,
      directory: join(options.directory, taskId),
      stopping: new AbortController(),
      startedAt: performance.now(),
      stagingMs: 0,
      running: false,
      ports: null,
      onGo: null,
    };
    held.set(taskId, entry);
    const { signal } = entry.stopping;
    try {
      await mkdir(entry.directory, { recursive: true, mode: 0o700 });
      const staged = await orAborted(staging.stage(jobId, work), signal);
      await staging.copyInto(join(entry.directory, 'work'), work, signal);
      entry.stagingMs = performance.now() - entry.startedAt;
      signal.throwIfAborted();
      if (work.kind === 'inference') {
        await infer(entry, staged);
        return;
      }
      const variables = work.kind === 'gang' ? await gather(entry) : {};
      signal.throwIfAborted();
      const request =
        work.kind === 'index'
          ? { kind: 'index' as const, taskId, dataset: work.dataset, path: staged.input ?? '' }
          : programOf(entry, staged, variables);
      entry.running = true;
      runner.run(request);
    } catch (error) {
      if (held.get(taskId) === entry && !entry.running) await forget(entry, () => fail(taskId, error));
    }
  };

  const infer = async (entry: Held, staged: StagedJob): Promise<void> => {
    const { assignment, work } = entry.task;
    if (work.kind !== 'inference') return;
    const { taskId } = assignment;
    const outputPath = join(entry.directory, 'answers.jsonl');
    report([{ type: 'started', taskId }]);
    const refused = await runInference({
      work,
      assignment,
      datasetPath: staged.input ?? '',
      outputPath,
      dial: options.dial,
      signal: entry.stopping.signal,
      onProgress: (fraction) => report([{ type: 'progress', taskId, fraction }]),
      random: options.random,
    });
    const wallMs = performance.now() - entry.startedAt - entry.stagingMs;
    await finish(
      entry,
      refused > 0 ? { refused } : null,
      [{ name: 'output', path: outputPath, kind: 'file' }],
      { wallMs, cpuMs: null, peakBytes: null, stagingMs: 0 },
      '',
    );
  };

  /** Keeps ports, says where this rank is, and waits for the others. */
  const gather = async (entry: Held): Promise<Record<string, string>> => {
    const { assignment, work } = entry.task;
    const { taskId, gang } = assignment;
    if (work.kind !== 'gang' || !gang) throw new CoveyError('internal_error', 'it came without a rank');
    const { signal } = entry.stopping;
    const network = work.program.network === 'lan' ? options.network() : null;
    entry.ports = await portReserve.reserve(work.ports, network);
    signal.throwIfAborted();
    const { host, ports } = entry.ports;
    const gone = new Promise<GangGo>((resolve) => (entry.onGo = resolve));
    report([{ type: 'started', taskId, host, ports }]);
    const go = await orAborted(gone, signal);
    await entry.ports.release();
    return gangVariables(gang, go, network?.interface ?? null);
  };

  const programOf = (
    { task, directory }: Held,
    staged: StagedJob,
    variables: Readonly<Record<string, string>>,
  ): ProgramTask => {
    const { assignment, work } = task;
    if (!('program' in work)) throw new CoveyError('internal_error', 'it came without a program');
    const { taskId, index, count, attempt, range, seek } = assignment;
    return {
      kind: 'program',
      ...{ taskId, index, count, attempt, range, directory, variables },
      program: work.program,
      mounts: staged.mounts,
      outputs: 'outputs' in work ? work.outputs : [],
      feed:
        work.kind === 'map' ? { dataset: work.dataset, path: staged.input ?? '', seek, per: work.per } : null,
    };
  };

  /** Takes what a task made into the store, and tells its end. */
  const finish = async (
    entry: Held,
    value: TaskResult['value'],
    outputs: readonly MadeOutput[],
    usage: TaskUsage,
    output: string,
  ): Promise<void> => {
    const { taskId } = entry.task.assignment;
    const { signal } = entry.stopping;
    try {
      const artifacts: TaskResult['artifacts'] = [];
      for (const { name, path, kind } of outputs) {
        const stake = kind === 'file' ? await cache.addFile(path, signal) : await cache.addTree(path, signal);
        artifacts.push({ ...stake, name });
      }
      await forget(entry, () =>
        report([{ type: 'done', taskId, result: { value, artifacts }, usage: whole(entry, usage), output }]),
      );
    } catch (error) {
      await forget(entry, () => fail(taskId, error));
    }
  };

  const whole = ({ stagingMs }: Held, usage: TaskUsage): TaskUsage => ({
    ...usage,
    wallMs: usage.wallMs + stagingMs,
    stagingMs,
  });

  /** Its directory goes, with its secrets, before its end is told. */
  const forget = async (entry: Held, tell: () => void): Promise<void> => {
    held.delete(entry.task.assignment.taskId);
    await entry.ports?.end();
    await removeDirectory(entry.directory).catch(() => undefined);
    tell();
  };

  return {
    start(tasks) {
      const kernelTasks = tasks.filter(({ work }) => work.kind === 'kernel');
      if (kernelTasks.length > 0) startKernels(kernelTasks);
      for (const task of tasks) if (task.work.kind !== 'kernel') void hold(task);
    },
    stop(taskIds, graceMs) {
      const withHost: TaskId[] = [];
      for (const taskId of taskIds) {
        const cancelled = new CoveyError('cancelled', 'it was told to end');
        const entry = held.get(taskId);
        if (entry?.running) runner.stop(taskId, graceMs);
        if (entry) entry.stopping.abort(cancelled);
        else if (waitingKernels.delete(taskId)) fail(taskId, cancelled);
        else withHost.push(taskId);
      }
      if (withHost.length > 0) kernels.cancel(withHost);
    },
    go: (go) => held.get(go.taskId)?.onGo?.(go),
    dropJobs(jobIds) {
      for (const jobId of jobIds) staging.drop(jobId);
      kernels.forget(jobIds);
    },
    heardKernels: (news) => report(news.map(fromKernel)),
    heardRunner(news) {
      const entry = held.get(news.taskId);
      if (!entry) return;
      const { taskId } = news;
      switch (news.type) {
        case 'started':
          // A rank has said so when it was ready for its gang.
          if (entry.task.work.kind !== 'gang') report([{ type: 'started', taskId }]);
          return;
        case 'progress':
          report([{ type: 'progress', taskId, fraction: news.fraction }]);
          return;
        case 'done':
          void finish(entry, news.value as TaskResult['value'], news.outputs, news.usage, news.output);
          return;
        case 'failed': {
          const { outcome, error, exitCode, output } = news;
          const usage = whole(entry, news.usage);
          void forget(entry, () =>
            report([{ type: 'failed', taskId, outcome, error, exitCode, usage, output }]),
          );
          return;
        }
        case 'gone':
          void forget(entry, () =>
            fail(taskId, new CoveyError('task_lost', `the task runner ${news.detail}`), 'lost'),
          );
          return;
      }
    },
  };
}

function fromKernel(news: KernelNews): HostReport {
  const { taskId } = news;
  switch (news.type) {
    case 'started':
    case 'progress':
      return news;
    case 'done':
      return {
        type: 'done',
        taskId,
        result: { value: news.value, artifacts: [] },
        usage: kernelUsage(news.wallMs),
        output: '',
      };
    case 'failed':
      return {
        type: 'failed',
        taskId,
        outcome: news.error.code === 'kernels_unavailable' ? 'lost' : 'failed',
        error: news.error,
        exitCode: null,
        usage: kernelUsage(news.wallMs),
        output: '',
      };
    case 'gone':
      return {
        type: 'failed',
        taskId,
        outcome: news.outcome,
        error: news.error,
        exitCode: null,
        usage: null,
        output: '',
      };
  }
}

function kernelUsage(wallMs: number): TaskUsage {
  return { wallMs, cpuMs: null, peakBytes: null, stagingMs: 0 };
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(CoveyError.from(signal.reason));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work
      .then(resolve, (error: unknown) => reject(CoveyError.from(error)))
      .finally(() => signal.removeEventListener('abort', onAbort));
  });
}
