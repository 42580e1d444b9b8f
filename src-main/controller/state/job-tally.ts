import type { NodeId } from '#shared/lib/ids.ts';
import type { TaskUsage } from '#shared/domain/task.ts';
import type {
  JobCourse,
  JobDefinition,
  JobOnNode,
  JobRecord,
  JobTally,
  PartitionPhase,
  PartitionRecord,
} from './job-state.ts';
import { isLive, lean, restOf, shareOut, unitsOf } from './job-shares.ts';

export const idleNode: JobOnNode = {
  active: 0,
  doneUnits: 0,
  donePartitions: 0,
  unitsPerS: null,
  recent: { units: 0, ms: 0 },
  taskMs: null,
  refused: null,
};

export const emptyCounts: JobTally['counts'] = {
  waiting: 0,
  active: 0,
  fetching: 0,
  done: 0,
  failed: 0,
  cancelled: 0,
};

/** What older tasks count for each time that another has ended. */
const fading = 0.6;

/** After a task of so many units has ended with a result. By time, so that a short first probe soon counts little. */
export function measured(before: JobOnNode, units: number, usage: TaskUsage): JobOnNode {
  const wallMs = Math.max(usage.wallMs, 0.01);
  const recent = {
    units: before.recent.units * fading + Math.max(units, 1),
    ms: before.recent.ms * fading + Math.max(usage.wallMs - usage.stagingMs, 0.01),
  };
  return {
    ...before,
    recent,
    unitsPerS: (recent.units * 1000) / recent.ms,
    taskMs: before.taskMs === null ? wallMs : before.taskMs * fading + wallMs * (1 - fading),
  };
}

/** Counts everything anew: when a job is read from the database, and as the measure for what apply keeps up. */
export function tallyOf(
  definition: JobDefinition,
  course: JobCourse,
  partitions: readonly PartitionRecord[],
  preparation: PartitionRecord | null,
): JobTally {
  const counted = definition.division.mode === 'counted';
  const counts: Record<PartitionPhase, number> = { ...emptyCounts };
  const again: number[] = [];
  const nodes = new Map<NodeId, JobOnNode>();
  const onNode = (id: NodeId): JobOnNode => nodes.get(id) ?? idleNode;
  let doneUnits = 0;
  for (const partition of preparation ? [preparation, ...partitions] : partitions) {
    const real = partition !== preparation;
    if (real) {
      counts[partition.phase] += 1;
      if (partition.phase === 'done') doneUnits += unitsOf(partition);
      if (waitsAgain(partition, counted)) again.push(partition.index);
    }
    for (const task of partition.tasks) {
      const before = onNode(task.nodeId);
      if (isLive(task)) nodes.set(task.nodeId, { ...before, active: before.active + 1 });
      else if (task.outcome === 'refused' && task.error) {
        nodes.set(task.nodeId, { ...before, refused: { at: task.endedAt ?? 0, error: task.error } });
      } else if (task.outcome === 'done' && real) {
        const next = task.usage ? measured(before, unitsOf(partition), task.usage) : before;
        nodes.set(task.nodeId, partition.phase === 'done' ? credited(next, partition) : next);
      }
    }
  }
  const rest = shareOut(restOf(definition, course, partitions), course.distribution, partitions, counted);
  return { counts, doneUnits, rest, again, nodes };
}

export function credited(node: JobOnNode, partition: PartitionRecord): JobOnNode {
  return {
    ...node,
    doneUnits: node.doneUnits + unitsOf(partition),
    donePartitions: node.donePartitions + 1,
  };
}

/** Waits, and is not part of the rest. */
export function waitsAgain(partition: PartitionRecord, counted: boolean): boolean {
  return partition.phase === 'waiting' && (partition.attempt > 0 || !counted);
}

export function tallied(job: Omit<JobRecord, 'tally'>): JobRecord {
  return { ...job, tally: tallyOf(job.definition, job.course, job.partitions, job.preparation) };
}

/** A job that has ended, as it is kept: without partitions that never began (`lean`). */
export function finished(job: JobRecord): JobRecord {
  const partitions = lean(job.partitions);
  return job.definition.division.mode === 'auto' || partitions === job.partitions
    ? job
    : tallied({ ...job, partitions });
}
