import type { JobView, PartitionView, TaskView } from '../../src-main/shared/domain/job.ts';
import type { ArtifactId, JobId } from '../../src-main/shared/lib/ids.ts';
import { taskId } from '../../src-main/shared/lib/ids.ts';
import { at, nodeIdOf } from './views.ts';

/** Examples of what `/api` answers about jobs, for tests of its clients. */
export const exampleJobId = 'j-1a2b3c4d' as JobId;

/** A kernel that runs on two machines. */
export function exampleJob(changes: Partial<JobView> = {}): JobView {
  return {
    id: exampleJobId,
    name: 'sum numbers.f64',
    kind: 'kernel',
    status: 'running',
    createdAt: at - 61_000,
    startedAt: at - 60_000,
    finishedAt: null,
    units: { unit: 'elements', total: 134_217_728, done: 83_214_991 },
    partitions: { total: 41, waiting: 0, running: 2, done: 39, failed: 0, cancelled: 0 },
    distribution: 'auto',
    shares: [
      {
        nodeId: nodeIdOf('a'),
        nodeName: 'desk',
        targetPercent: 66.7,
        donePercent: 41,
        doneUnits: 55_029_268,
        running: 1,
        unitsPerS: 917_154,
        whyNot: null,
      },
      {
        nodeId: nodeIdOf('b'),
        nodeName: 'attic',
        targetPercent: 33.3,
        donePercent: 21,
        doneUnits: 28_185_723,
        running: 1,
        unitsPerS: 469_762,
        whyNot: null,
      },
      {
        nodeId: nodeIdOf('e'),
        nodeName: 'cellar',
        targetPercent: null,
        donePercent: 0,
        doneUnits: 0,
        running: 0,
        unitsPerS: null,
        whyNot: 'is draining',
      },
    ],
    notes: [],
    error: null,
    result: null,
    unitsPerS: 1_386_916,
    remainingMs: 36_700,
    ...changes,
  };
}

export function doneJob(changes: Partial<JobView> = {}): JobView {
  return exampleJob({
    status: 'done',
    finishedAt: at - 2_000,
    units: { unit: 'elements', total: 134_217_728, done: 134_217_728 },
    partitions: { total: 63, waiting: 0, running: 0, done: 63, failed: 0, cancelled: 0 },
    shares: [],
    result: { value: '9007199187632128', artifacts: [], missing: 0 },
    remainingMs: null,
    ...changes,
  });
}

/** A command of three partitions of which one failed for good. */
export function failedJob(changes: Partial<JobView> = {}): JobView {
  return exampleJob({
    name: 'render',
    kind: 'command',
    status: 'failed',
    finishedAt: at - 2_000,
    units: { unit: 'items', total: 3, done: 2 },
    partitions: { total: 3, waiting: 0, running: 0, done: 2, failed: 1, cancelled: 0 },
    shares: [],
    error: {
      code: 'partition_poisoned',
      message: 'Partition 1 failed 3 times, the last time: render ended with exit code 7.',
    },
    result: {
      value: null,
      artifacts: [
        { id: 'd'.repeat(64) as ArtifactId, kind: 'file', bytes: 1_048_576, name: '0/frame.png' },
        { id: 'e'.repeat(64) as ArtifactId, kind: 'tree', bytes: 52_428_800, name: '2/frames' },
      ],
      missing: 1,
    },
    unitsPerS: null,
    remainingMs: null,
    ...changes,
  });
}

export function examplePartition(changes: Partial<PartitionView> = {}): PartitionView {
  return {
    index: 0,
    range: { from: 0, to: 2_097_152 },
    status: 'done',
    progress: 1,
    attempts: 1,
    nodeId: nodeIdOf('a'),
    nodeName: 'desk',
    startedAt: at - 60_000,
    finishedAt: at - 57_700,
    error: null,
    nextAttemptAt: null,
    ...changes,
  };
}

export function exampleTask(changes: Partial<TaskView> = {}): TaskView {
  return {
    id: taskId(exampleJobId, 0, 1),
    jobId: exampleJobId,
    jobName: 'sum numbers.f64',
    index: 0,
    attempt: 1,
    nodeId: nodeIdOf('a'),
    nodeName: 'desk',
    outcome: 'done',
    speculative: false,
    assignedAt: at - 60_100,
    startedAt: at - 60_000,
    endedAt: at - 57_700,
    error: null,
    exitCode: null,
    usage: null,
    ...changes,
  };
}
