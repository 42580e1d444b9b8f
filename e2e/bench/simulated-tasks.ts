import type { ComputeFacts, TaskAssignment, TaskReport } from '../../src-main/shared/domain/task.ts';
import type { TaskId } from '../../src-main/shared/lib/ids.ts';
import type { ControllerFrame, WorkerFrame } from '../../src-main/shared/protocol/session.ts';

/** Of a simulated machine: it says that it computes, and time is all that its tasks take. */
export const simulatedCompute: ComputeFacts = {
  kernels: null,
  commands: { allowed: true, sandbox: 'bubblewrap', limits: 'cgroup2', network: false },
  cpus: 2,
  memoryBytes: 2 ** 34,
  problems: [],
};
const taskMs = 4_000;
const progressMs = 1_000;

type TasksFrame = Extract<ControllerFrame, { type: 'tasks' }>;

/**
 * Takes tasks, says once a second how far they are, and that each is done after four. What was lost with a session
 * is not remembered: the controller gives it out again.
 */
export function createSimulatedTasks(send: (frame: WorkerFrame) => void): {
  receive(frame: TasksFrame): void;
  /** The session is over. */
  forget(): void;
} {
  const waiting = new Map<TaskId, TaskAssignment>();
  const running = new Map<TaskId, { readonly task: TaskAssignment; readonly timer: NodeJS.Timeout }>();
  const report = (...reports: TaskReport[]): void => send({ type: 'tasks', reports });

  const startNext = (): void => {
    for (const task of waiting.values()) {
      if (running.size >= simulatedCompute.cpus) return;
      waiting.delete(task.taskId);
      start(task);
    }
  };
  const start = (task: TaskAssignment): void => {
    const { taskId, epoch } = task;
    let ms = 0;
    report({ type: 'started', taskId, epoch });
    const timer = setInterval(() => {
      ms += progressMs;
      if (ms < taskMs) return report({ type: 'progress', taskId, epoch, fraction: ms / taskMs });
      end(taskId);
      const usage = { wallMs: taskMs, cpuMs: 1, peakBytes: 1_000_000, stagingMs: 0 };
      report({
        type: 'done',
        taskId,
        epoch,
        result: { value: null, artifacts: [] },
        usage,
        output: 'done\n',
      });
      startNext();
    }, progressMs);
    running.set(taskId, { task, timer });
  };
  const end = (taskId: TaskId): void => {
    clearInterval(running.get(taskId)?.timer);
    running.delete(taskId);
    waiting.delete(taskId);
  };

  return {
    receive({ start: given, cancel }) {
      for (const taskId of cancel) {
        const epoch = (running.get(taskId)?.task ?? waiting.get(taskId))?.epoch;
        if (epoch === undefined) continue;
        end(taskId);
        report({
          type: 'failed',
          taskId,
          epoch,
          outcome: 'cancelled',
          error: { code: 'cancelled', message: 'Cancelled.' },
          exitCode: null,
          usage: null,
          output: '',
        });
      }
      for (const task of given) waiting.set(task.taskId, task);
      startNext();
    },
    forget() {
      for (const { timer } of running.values()) clearInterval(timer);
      running.clear();
      waiting.clear();
    },
  };
}
