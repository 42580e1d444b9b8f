import type { NodeId } from '#shared/lib/ids.ts';
import { isLive } from '../../state/job-shares.ts';
import type { Assignment } from '../../state/job-events.ts';
import type { JobRecord } from '../../state/job-state.ts';
import type { NodeRecord } from '../../state/state.ts';
import { attemptAt } from './attempt.ts';
import { isDue, type Since } from './elapsed.ts';
import { slotsFor, whyNot } from './fit.ts';
import { keep, occupy, type Room } from './room.ts';

/**
 * All ranks of a gang, spread over as many machines as there are, neighbouring ranks on the same machine; nothing
 * when they do not all have room. If they had it when nothing else ran, those machines are kept for them.
 */
export function placeGang(job: JobRecord, rooms: ReadonlyMap<NodeId, Room>, since: Since): Assignment[] {
  const { definition, partitions, course, tally } = job;
  if (!definition.gang || course.gang?.stopping || tally.counts.waiting < partitions.length) return [];
  if (!partitions.every((partition) => isDue(partition, since))) return [];
  const perNode = definition.gang.perNode ?? Infinity;
  const candidates = [...rooms].filter(([, { node }]) => whyNot(job, node) === null);
  const seats = (free: (room: Room) => number) =>
    spread(
      partitions.length,
      candidates.map(([, room]) => Math.min(perNode, free(room))),
    );
  const counts = seats((room) => slotsFor(definition, room, room.compute));
  if (!counts) {
    if (seats((room) => slotsFor(definition, room.compute, room.compute))) {
      for (const [, room] of candidates) keep(room);
    }
    return [];
  }
  const assignments: Assignment[] = [];
  candidates.forEach(([id, room], position) => {
    const count = counts[position] ?? 0;
    occupy(room, job, count);
    for (const partition of partitions.slice(assignments.length, assignments.length + count)) {
      assignments.push(attemptAt(job, partition, id));
    }
  });
  return assignments;
}

/** Ranks that have room at once on machines that may take some, if nothing else ran there. */
export function roomForRanks(job: JobRecord, nodes: Iterable<NodeRecord>): number {
  const perNode = job.definition.gang?.perNode ?? Infinity;
  let room = 0;
  for (const node of nodes) {
    const { compute } = node.live;
    if (!compute || whyNot(job, node) !== null) continue;
    room += Math.min(perNode, slotsFor(job.definition, compute, compute));
  }
  return room;
}

/** So many over places with so much room each, as evenly as they allow; null: they have not enough. */
export function spread(count: number, rooms: readonly number[]): number[] | null {
  const seats = rooms.map(() => 0);
  let left = count;
  while (left > 0) {
    const before = left;
    for (const [position, room] of rooms.entries()) {
      const taken = seats[position] ?? 0;
      if (left === 0 || taken >= room) continue;
      seats[position] = taken + 1;
      left -= 1;
    }
    if (left === before) return null;
  }
  return seats;
}

/** Every rank is staged and can be reached: the gang may go. */
export function isComplete({ definition, course, partitions, tally }: JobRecord): boolean {
  if (!definition.gang || !course.gang || course.gang.goAt !== null || course.gang.stopping) return false;
  if (course.ending || tally.counts.active < partitions.length) return false;
  return partitions.every(({ tasks }) => tasks.some((task) => isLive(task) && task.reach !== null));
}
