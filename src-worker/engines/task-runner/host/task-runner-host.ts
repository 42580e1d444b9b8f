import type { TaskUsage } from '#shared/domain/task.ts';
import type {
  IndexTask,
  ProgramTask,
  RunnerCommand,
  RunnerEvent,
  RunnerInit,
} from '#shared/host/task-runner.ts';
import { CoveyError } from '#shared/errors.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import { parentPort } from '../../../../src-main/nodejs/process-host/parent-port.ts';
import type { GroupUsage } from '../limits/limit-group.ts';
import { createOutputTail, type OutputTail } from '../output-tail.ts';
import { ProgramFailure, runProgramTask } from '../program-task.ts';
import { buildIndex } from '../records/build-index.ts';

/**
 * Entry of the task runner: starts the programs of tasks and reads datasets. However it ends, what it started ends too:
 * by its own hand, or by the launcher and the sandbox when it is killed.
 */
const port = parentPort();
const emit = (event: RunnerEvent): void => port.send(event);

interface Running {
  readonly stopping: AbortController;
  readonly tail: OutputTail;
  graceMs: number;
}
const running = new Map<TaskId, Running>();
let init: RunnerInit | null = null;
let low = false;
/** Progress of one task is told twice a second at most. */
const progressMs = 500;

function run(task: ProgramTask | IndexTask, settings: RunnerInit): void {
  const { taskId } = task;
  if (running.has(taskId)) return;
  const entry: Running = { stopping: new AbortController(), tail: createOutputTail(), graceMs: 0 };
  running.set(taskId, entry);
  const startedAt = performance.now();
  let used: GroupUsage = { cpuMs: null, peakBytes: null };
  let toldAt = startedAt;
  const onProgress = (fraction: number): void => {
    const now = performance.now();
    if (now - toldAt < progressMs) return;
    toldAt = now;
    emit({ type: 'progress', taskId, fraction: Math.min(1, Math.max(0, fraction)) });
  };
  const usage = (): TaskUsage => ({ wallMs: performance.now() - startedAt, ...used, stagingMs: 0 });
  const work = async (): Promise<void> => {
    try {
      if (task.kind === 'index') {
        emit({ type: 'started', taskId });
        const value = await buildIndex(task.path, task.dataset, entry.stopping.signal, onProgress);
        emit({ type: 'done', taskId, value, outputs: [], usage: usage(), output: '' });
        return;
      }
      const outputs = await runProgramTask(task, {
        init: settings,
        tail: entry.tail,
        signal: entry.stopping.signal,
        graceMs: () => entry.graceMs,
        lowPriority: () => low,
        onStarted: () => emit({ type: 'started', taskId }),
        onProgress,
        onUsage: (group) => (used = group.usage()),
      });
      emit({ type: 'done', taskId, value: null, outputs, usage: usage(), output: entry.tail.text() });
    } catch (thrown) {
      const error = CoveyError.from(thrown);
      const failure = thrown instanceof ProgramFailure ? thrown : null;
      emit({
        type: 'failed',
        taskId,
        outcome: failure?.outcome ?? (error.code === 'dataset_invalid' ? 'failed' : 'lost'),
        error: error.toBody(),
        exitCode: failure?.exitCode ?? null,
        usage: usage(),
        output: entry.tail.text(),
      });
    } finally {
      running.delete(taskId);
    }
  };
  void work();
}

port.onMessage((message) => {
  const command = message as RunnerCommand;
  switch (command.type) {
    case 'init':
      init = command;
      return;
    case 'run':
      if (init) run(command.task, init);
      return;
    case 'stop': {
      const entry = running.get(command.taskId);
      if (!entry) return;
      entry.graceMs = command.graceMs;
      entry.stopping.abort(new CoveyError('cancelled', 'it was told to end'));
      return;
    }
    case 'priority':
      low = command.low;
      return;
    case 'read-log': {
      const tail = running.get(command.taskId)?.tail;
      emit({
        type: 'log',
        request: command.request,
        output: tail?.text() ?? '',
        truncated: tail?.truncated ?? false,
      });
      return;
    }
  }
});

port.onDisconnect(() => {
  // Without grace programs are killed before this returns.
  for (const { stopping } of running.values())
    stopping.abort(new CoveyError('cancelled', 'the worker is gone'));
  process.exit(0);
});
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);

emit({ type: 'hello' });
