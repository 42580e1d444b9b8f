import type { KernelCommand, KernelEvent } from '#shared/host/kernel-host.ts';
import { parentPort } from '../../../../src-main/nodejs/process-host/parent-port.ts';
import { createKernelQueue, type KernelQueue } from './kernel-queue.ts';
import { loadRunner } from './load-runner.ts';

/**
 * Entry of the kernel host: the one process that has the native library. A library that fails takes this process with
 * it and nothing else: the parent starts another, and gives it the tasks that were waiting.
 */
const port = parentPort();
const emit = (event: KernelEvent): void => port.send(event);
let queue: KernelQueue | null = null;
/** What came while the library was being loaded. */
let early: KernelCommand[] | null = [];
let problem = 'the kernel library is not loaded';

async function load(engineDirectory: string | null): Promise<void> {
  try {
    const { isa, kernels, runner } = await loadRunner(engineDirectory);
    queue = createKernelQueue(
      runner,
      (reports) => emit({ type: 'reports', reports }),
      () => performance.now(),
    );
    emit({ type: 'hello', library: { isa, kernels }, problem: null });
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
    emit({ type: 'hello', library: null, problem });
  }
  const waiting = early ?? [];
  early = null;
  for (const command of waiting) obey(command);
}

function obey(command: KernelCommand): void {
  if (command.type === 'init') {
    void load(command.engineDirectory);
    return;
  }
  if (command.type === 'ping') {
    emit({ type: 'pong' });
    return;
  }
  if (early) {
    early.push(command);
    return;
  }
  switch (command.type) {
    case 'run':
      if (queue) queue.add(command.threads, command.works, command.tasks);
      else {
        const error = { code: 'kernels_unavailable', message: problem } as const;
        const reports = command.tasks.map(({ taskId }) => ({
          type: 'failed' as const,
          taskId,
          error,
          wallMs: 0,
        }));
        emit({ type: 'reports', reports });
      }
      return;
    case 'cancel':
      queue?.cancel(command.taskIds);
      return;
    case 'forget':
      queue?.forget(command.jobIds);
      return;
  }
}

port.onMessage((message) => obey(message as KernelCommand));
port.onDisconnect(() => process.exit(0));
// A terminal's Ctrl-C reaches every process of the group: the parent decides when this one ends.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
