import type { NodeId, TaskId } from '#shared/lib/ids.ts';
import type { JobStatus, PartitionStatus } from '#shared/domain/job.ts';
import { placeOf, type Jobs } from './apply-jobs.ts';
import { isLive, partitionAt } from './job-shares.ts';
import { preparationIndex, type JobRecord, type PartitionRecord, type TaskRecord } from './job-state.ts';

const openJobsOf = new WeakMap<Jobs, readonly JobRecord[]>();

/**
 * Jobs of which something may still be run or collected, those that go first in front: higher priority, then
 * earlier submission. Worked out once for each value of `jobs`.
 */
export function openJobs(jobs: Jobs): readonly JobRecord[] {
  const known = openJobsOf.get(jobs);
  if (known) return known;
  const open: JobRecord[] = [];
  for (const job of jobs.values()) if (job.course.finishedAt === null) open.push(job);
  // Stable, so that equal priorities stay in the order of submission.
  open.sort((a, b) => b.definition.priority - a.definition.priority);
  openJobsOf.set(jobs, open);
  return open;
}

export function jobStatus({ course }: JobRecord): JobStatus {
  return course.phase === 'collecting' ? 'running' : course.phase;
}

export function partitionStatus(job: JobRecord, partition: PartitionRecord): PartitionStatus {
  switch (partition.phase) {
    case 'waiting':
      return job.course.finishedAt === null ? 'waiting' : 'cancelled';
    case 'active':
      return partition.tasks.some((task) => isLive(task) && task.startedAt !== null) ? 'running' : 'assigned';
    case 'fetching':
      return job.course.finishedAt === null ? 'running' : 'cancelled';
    case 'done':
    case 'failed':
    case 'cancelled':
      return partition.phase;
  }
}

export function partitionOf(job: JobRecord, index: number): PartitionRecord | undefined {
  return index === preparationIndex ? (job.preparation ?? undefined) : partitionAt(job, index);
}

/** The attempt of this id, as far as it is still kept. */
export function findTask(
  jobs: Jobs,
  id: TaskId,
): { job: JobRecord; partition: PartitionRecord; task: TaskRecord } | null {
  const { jobId, index } = placeOf(id);
  const job = jobs.get(jobId);
  const partition = job && partitionOf(job, index);
  const task = partition?.tasks.find((candidate) => candidate.id === id);
  return job && partition && task ? { job, partition, task } : null;
}

/** It is to run on: given to a machine, not ended, and nobody has told it to end. */
export function isWanted(job: JobRecord, task: TaskRecord): boolean {
  return isLive(task) && !isStopping(job);
}

/** What runs of it is to be ended. */
export function isStopping({ course }: JobRecord): boolean {
  return course.ending !== null || Boolean(course.gang?.stopping);
}

/** Whether the work of open jobs is on this machine. */
export function hasTasks(jobs: Jobs, nodeId: NodeId): boolean {
  return openJobs(jobs).some((job) => (job.tally.nodes.get(nodeId)?.active ?? 0) > 0);
}

/** Attempts that are on machines now, over all partitions: to be asked for seldom. */
export function* liveTasks(
  job: JobRecord,
): Generator<{ partition: PartitionRecord; task: TaskRecord }, void, void> {
  if (job.preparation?.phase === 'active') yield* liveOf(job.preparation);
  if (job.tally.counts.active === 0) return;
  for (const partition of job.partitions) if (partition.phase === 'active') yield* liveOf(partition);
}

function* liveOf(partition: PartitionRecord): Generator<{ partition: PartitionRecord; task: TaskRecord }> {
  for (const task of partition.tasks) if (isLive(task)) yield { partition, task };
}
