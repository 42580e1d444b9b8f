import type { TaskAssignment, Work } from '#shared/domain/task.ts';
import type { ArtifactId, JobId, TaskId } from '#shared/lib/ids.ts';
import { taskId } from '#shared/lib/ids.ts';
import type { TaskRules, TasksConfig } from './state.ts';

/** For tests. */
export const config: TasksConfig = {
  stopGraceMs: 5_000,
  giveWayMs: 30_000,
  handOver: 4,
  journalAfterMs: 1_000,
  repeatMs: 30_000,
};

export const freely: TaskRules = {
  awaySince: null,
  why: '',
  cpus: 4,
  noKernels: null,
  noCommands: null,
  noNetwork: null,
  noInference: null,
};

export const jobId = 'j-00000001' as JobId;
const stake = { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 800 };

export const kernelWork: Work = {
  kind: 'kernel',
  call: { kernel: 'sum', type: 'f64' },
  input: stake,
  second: null,
};

export function commandWork(change: { cpus?: number; network?: 'none' | 'lan' } = {}): Work {
  return {
    kind: 'command',
    program: {
      command: ['true'],
      script: null,
      interpreter: ['/bin/sh'],
      env: {},
      secrets: {},
      inputs: [],
      limits: { memoryBytes: 2 ** 28, processes: 64, outputBytes: 2 ** 20 },
      network: change.network ?? 'none',
      cpus: change.cpus ?? 1,
    },
    outputs: [],
  };
}

export function assignment(index: number, change: Partial<TaskAssignment> = {}): TaskAssignment {
  const job = change.jobId ?? jobId;
  return {
    taskId: taskId(job, index, 1),
    jobId: job,
    index,
    count: null,
    attempt: 1,
    epoch: 1,
    range: { from: index * 10, to: index * 10 + 10 },
    seek: null,
    timeoutMs: 60_000,
    leaseMs: 120_000,
    gang: null,
    ...change,
  };
}

export const id = (index: number): TaskId => taskId(jobId, index, 1);
