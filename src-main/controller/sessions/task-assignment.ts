import type { NodeId } from '#shared/lib/ids.ts';
import type { GangGo, Seek, TaskAssignment } from '#shared/domain/task.ts';
import { isLive } from '../state/job-shares.ts';
import {
  preparationIndex,
  type JobRecord,
  type PartitionRecord,
  type TaskRecord,
} from '../state/job-state.ts';

/** What a worker gets of an attempt. */
export function assignmentOf(
  job: JobRecord,
  partition: PartitionRecord,
  task: TaskRecord,
  leaseMs: number,
): TaskAssignment {
  const { definition, course } = job;
  const { index, range } = partition;
  const counted = definition.division.mode === 'counted' && index !== preparationIndex;
  return {
    taskId: task.id,
    jobId: definition.id,
    index,
    count: counted ? job.partitions.length : null,
    attempt: task.attempt,
    epoch: task.epoch,
    range,
    seek: range ? seekBefore(course.seeks, range.from) : null,
    timeoutMs: definition.timeoutMs,
    leaseMs,
    gang: course.gang ? { rank: index, worldSize: job.partitions.length, start: course.gang.start } : null,
  };
}

/** The last known place at or before this record; places are in order. */
export function seekBefore(seeks: readonly Seek[], record: number): Seek | null {
  let low = 0;
  let high = seeks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((seeks[middle]?.record ?? Infinity) <= record) low = middle + 1;
    else high = middle;
  }
  return seeks[low - 1] ?? null;
}

/** What each rank of a gang that goes is told: where all of them are. */
export function gangGoOf({ partitions }: JobRecord): { nodeId: NodeId; go: GangGo }[] {
  const live = partitions.flatMap(({ index, tasks }) => {
    const task = tasks.find(isLive);
    return task?.reach ? [{ index, task, reach: task.reach }] : [];
  });
  const ranks = live.map(({ index, task, reach }) => ({
    rank: index,
    nodeId: task.nodeId,
    host: reach.host,
    ports: [...reach.ports],
  }));
  return live.map(({ task }) => ({ nodeId: task.nodeId, go: { taskId: task.id, ranks } }));
}
