import type { Assignment } from '../../state/job-events.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { isLive, unitsOf } from '../../state/job-shares.ts';
import type { JobRecord, PartitionRecord } from '../../state/job-state.ts';
import { attemptAt } from './attempt.ts';
import { slotsFor, whyNot } from './fit.ts';
import type { JobPolicy } from './job-policy.ts';
import { occupy, type Room } from './room.ts';

/**
 * Second copies of the slowest partitions of a job that has nothing else left to give out: on a machine with room
 * for it, when the first copy has taken `stragglerFactor` times what that machine would need for all of it, and by
 * its own progress would need longer than that still.
 */
export function speculate(
  jobs: readonly JobRecord[],
  rooms: ReadonlyMap<NodeId, Room>,
  now: number,
  policy: JobPolicy,
): Assignment[] {
  const assignments: Assignment[] = [];
  for (const job of jobs) {
    const { definition, course, tally } = job;
    if (
      !definition.speculative ||
      definition.exclusive ||
      definition.gang ||
      course.ending ||
      course.phase !== 'running'
    )
      continue;
    if (tally.rest.length > 0 || tally.again.length > 0 || tally.counts.active === 0) continue;
    const manual = course.distribution.mode === 'manual';
    // Those named by hand do their share, however slow they are.
    if (manual) continue;
    for (const partition of job.partitions) {
      const helper = partition.phase === 'active' ? helperFor(job, partition, rooms, now, policy) : null;
      if (!helper) continue;
      occupy(helper, job, 1);
      assignments.push(attemptAt(job, partition, helper.node.durable.id, true));
    }
  }
  return assignments;
}

function helperFor(
  job: JobRecord,
  partition: PartitionRecord,
  rooms: ReadonlyMap<NodeId, Room>,
  now: number,
  policy: JobPolicy,
): Room | null {
  const live = partition.tasks.filter(isLive);
  const [task] = live;
  if (!task || live.length > 1) return null;
  const elapsedMs = now - (task.startedAt ?? task.assignedAt);
  if (elapsedMs < policy.stragglerMs) return null;
  const leftMs = task.progress > 0 ? (elapsedMs * (1 - task.progress)) / task.progress : Infinity;
  let best: Room | null = null;
  let bestMs = Math.min(elapsedMs / policy.stragglerFactor, leftMs);
  for (const [id, room] of rooms) {
    if (wasAt(partition, id) || slotsFor(job.definition, room, room.compute) === 0) continue;
    const expected = expectedMs(job, partition, id);
    if (expected === null || expected >= bestMs || whyNot(job, room.node) !== null) continue;
    best = room;
    bestMs = expected;
  }
  return best;
}

/** It runs there, or a copy of it has ended there without a result, and would again. */
function wasAt({ tasks }: PartitionRecord, id: NodeId): boolean {
  return tasks.some(
    ({ nodeId, outcome }) =>
      nodeId === id && (outcome === 'running' || outcome === 'failed' || outcome === 'crashed'),
  );
}

/** By what it has measured there, else by what tasks take on all machines together; null: nothing is known. */
function expectedMs(job: JobRecord, partition: PartitionRecord, id: NodeId): number | null {
  const own = job.tally.nodes.get(id)?.unitsPerS ?? null;
  if (own !== null) return (unitsOf(partition) * 1000) / own;
  let units = 0;
  let ms = 0;
  for (const { recent } of job.tally.nodes.values()) {
    units += recent.units;
    ms += recent.ms;
  }
  return units === 0 ? null : (unitsOf(partition) * ms) / units;
}
