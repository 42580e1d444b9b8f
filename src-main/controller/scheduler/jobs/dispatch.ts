import type { NodeId } from '#shared/lib/ids.ts';
import { taskId } from '#shared/lib/ids.ts';
import type { Range } from '#shared/domain/task.ts';
import type { Assignment } from '../../state/job-events.ts';
import { preparationIndex, type JobRecord, type PartitionRecord } from '../../state/job-state.ts';
import { idleNode } from '../../state/job-tally.ts';
import { attemptAt } from './attempt.ts';
import { cutUnits } from './cut.ts';
import { isDue, type Since } from './elapsed.ts';
import { slotsFor, whyNot } from './fit.ts';
import { placeGang } from './gang.ts';
import type { JobPolicy } from './job-policy.ts';
import { keep, occupy, type Room } from './room.ts';

/** One machine while a job is dealt out. */
interface Taker {
  readonly room: Room;
  readonly id: NodeId;
  /** Tasks of this job that it runs at once when it runs nothing else. */
  readonly slots: number;
  /** Tasks that start at once. */
  free: number;
  /** Milliseconds of work beyond those that may wait there, and how many tasks. */
  queueMs: number;
  queue: number;
}

/**
 * Gives waiting work of the open jobs, in their order, to machines with room for it:
 * 1. Every free slot first, one per machine and round, so that few partitions are spread.
 * 2. Then what waits at the machines, as far as tasks are short (`prefetchMs`).
 * 3. What would fit if a machine were free, but does not now, keeps it from the jobs behind: a gang all machines where
 *    its ranks may run, a partition that needs more of one than is free that one. Otherwise many small ones would hold
 *    it up for ever.
 */
export function dispatch(
  jobs: readonly JobRecord[],
  rooms: ReadonlyMap<NodeId, Room>,
  since: Since,
  policy: JobPolicy,
): Assignment[] {
  const assignments: Assignment[] = [];
  const lastActive = jobs.findLastIndex(({ tally }) => tally.counts.active > 0);
  for (const [position, job] of jobs.entries()) {
    // Nothing can be given to those that are left, nor be kept from anyone.
    if (position > lastActive && isFull(rooms)) break;
    const { course, tally } = job;
    if (course.ending) continue;
    if (course.phase === 'preparing') {
      prepare(job, rooms, since, assignments);
      continue;
    }
    if (course.phase !== 'queued' && course.phase !== 'running') continue;
    if (tally.rest.length + tally.again.length === 0) continue;
    if (job.definition.gang) {
      assignments.push(...placeGang(job, rooms, since));
      continue;
    }
    deal(job, rooms, since, policy, assignments);
  }
  return assignments;
}

function isFull(rooms: ReadonlyMap<NodeId, Room>): boolean {
  for (const { cpus } of rooms.values()) if (cpus > 1e-9) return false;
  return true;
}

function deal(
  job: JobRecord,
  rooms: ReadonlyMap<NodeId, Room>,
  since: Since,
  policy: JobPolicy,
  assignments: Assignment[],
): void {
  const takers: Taker[] = [];
  /** It would run there if less of others did. */
  const crowded: Room[] = [];
  for (const [id, room] of rooms) {
    if (room.kept) continue;
    const { active, taskMs } = job.tally.nodes.get(id) ?? idleNode;
    const slots = slotsFor(job.definition, room.compute, room.compute);
    const free = Math.min(slotsFor(job.definition, room, room.compute), Math.max(0, slots - active));
    if (free === 0 && active < slots && whyNot(job, room.node) === null) crowded.push(room);
    if (free === 0 && active === 0) continue;
    const waiting = Math.max(0, active - slots);
    const queueMs = policy.prefetchMs * slots - (waiting === 0 ? 0 : waiting * (taskMs ?? Infinity));
    const queue = policy.prefetchTasks - waiting;
    if (free === 0 && (queue <= 0 || queueMs <= 0)) continue;
    if (whyNot(job, room.node) === null) takers.push({ room, id, slots, free, queueMs, queue });
  }
  if (takers.length + crowded.length === 0) return;
  const pile = createPile(job, rooms, takers, since, policy);
  // 1.
  inRounds(takers, (taker) => {
    const assignment = taker.free > 0 ? pile.next(taker, Infinity) : null;
    if (!assignment) return false;
    taker.free -= 1;
    occupy(taker.room, job, 1);
    assignments.push(assignment);
    return true;
  });
  // 2.
  inRounds(takers, (taker) => {
    const assignment = taker.queue > 0 ? pile.next(taker, taker.queueMs / taker.slots) : null;
    if (!assignment) return false;
    taker.queue -= 1;
    taker.queueMs -= pile.expectedMs(assignment, taker.id);
    assignments.push(assignment);
    return true;
  });
  // 3.
  for (const room of crowded) if (pile.hasFor(room.node.durable.id)) keep(room);
}

/** Everybody in turn, until nobody gets anything. */
function inRounds(takers: readonly Taker[], give: (taker: Taker) => boolean): void {
  let left = [...takers];
  while (left.length > 0) left = left.filter(give);
}

interface Pile {
  /** The next piece of work for this machine that takes no longer than this; null: there is none for it now. */
  next(taker: Taker, withinMs: number): Assignment | null;
  /** Something is left that may go to this machine. */
  hasFor(id: NodeId): boolean;
  /** By what was measured there; Infinity: nothing was. */
  expectedMs(work: { readonly range: Range | null }, id: NodeId): number;
}

function createPile(
  job: JobRecord,
  rooms: ReadonlyMap<NodeId, Room>,
  takers: readonly Taker[],
  since: Since,
  policy: JobPolicy,
): Pile {
  const { definition, course, tally, partitions } = job;
  const { division, id: jobId } = definition;
  const manual = course.distribution.mode === 'manual';
  const rest = tally.rest.map((segment) => ({ ...segment }));
  const again = tally.again
    .flatMap((index) => partitions[index] ?? [])
    .filter((partition) => isDue(partition, since));
  let size = partitions.length;
  let speeds: Speeds | null = null;

  const isMine = (owner: NodeId | null, id: NodeId): boolean => !manual || owner === null || owner === id;
  const expectedMs: Pile['expectedMs'] = ({ range }, id) => {
    const { unitsPerS, taskMs } = tally.nodes.get(id) ?? idleNode;
    if (division.mode === 'counted' || !range) return taskMs ?? Infinity;
    return unitsPerS === null ? Infinity : ((range.to - range.from) * 1000) / unitsPerS;
  };
  /** Another machine could begin it now: whoever only might later is not waited for. */
  const canGoElsewhere = (partition: PartitionRecord, taker: Taker): boolean =>
    takers.some((other) => other !== taker && other.free > 0 && isMine(partition.owner, other.id));
  const repeat = (taker: Taker, withinMs: number): Assignment | null => {
    const position = again.findIndex(
      (partition) =>
        isMine(partition.owner, taker.id) &&
        !(failedLastOn(partition, taker.id) && canGoElsewhere(partition, taker)) &&
        (withinMs === Infinity || expectedMs(partition, taker.id) <= withinMs),
    );
    const [partition] = position < 0 ? [] : again.splice(position, 1);
    return partition ? attemptAt(job, partition, taker.id) : null;
  };

  return {
    expectedMs,
    hasFor: (id) => [...rest, ...again].some(({ owner }) => isMine(owner, id)),
    next(taker, withinMs) {
      const repeated = again.length > 0 ? repeat(taker, withinMs) : null;
      if (repeated) return repeated;
      let place = manual ? rest.findIndex(({ owner }) => owner === taker.id) : 0;
      if (place < 0) place = rest.findIndex(({ owner }) => owner === null);
      const segment = rest[place];
      if (!segment) return null;
      const { from, owner } = segment;
      let units = 1;
      if (division.mode === 'auto') {
        speeds ??= speedsOf(job, rooms);
        const mine = manual && owner !== null;
        units = cutUnits(
          {
            smallest: division.smallest,
            largest: division.largest,
            total: course.total ?? 0,
            remaining: rest.reduce((sum, s) => sum + (!mine || s.owner === owner ? s.to - s.from : 0), 0),
            unitsPerS: speeds.of(taker.id),
            allUnitsPerS: mine ? (speeds.of(taker.id) ?? 0) * taker.slots : speeds.all,
          },
          policy,
        );
      }
      const to = Math.min(segment.to, from + units);
      if (withinMs !== Infinity && expectedMs({ range: { from, to } }, taker.id) > withinMs) return null;
      segment.from = to;
      if (segment.from === segment.to) rest.splice(place, 1);
      const known = division.mode === 'counted' ? partitions[from] : undefined;
      if (known) return { ...attemptAt(job, known, taker.id), owner };
      const index = size++;
      return {
        jobId,
        index,
        epoch: 1,
        attempt: 1,
        taskId: taskId(jobId, index, 1),
        nodeId: taker.id,
        range: { from, to },
        owner,
        speculative: false,
      };
    },
  };
}

function failedLastOn({ tasks }: PartitionRecord, id: NodeId): boolean {
  const last = tasks.at(-1);
  return last?.nodeId === id && (last.outcome === 'failed' || last.outcome === 'crashed');
}

interface Speeds {
  of(id: NodeId): number | null;
  /** Of all machines that share in the job, all their slots busy. */
  readonly all: number;
}

/** A machine that has not been measured counts as the others do on average. */
function speedsOf(job: JobRecord, rooms: ReadonlyMap<NodeId, Room>): Speeds {
  const { nodes } = job.tally;
  const sharing = [...rooms.values()].filter(({ node }) => whyNot(job, node) === null);
  let known = 0;
  let knownSlots = 0;
  let unknownSlots = 0;
  for (const { node, compute } of sharing) {
    const slots = slotsFor(job.definition, compute, compute);
    const speed = nodes.get(node.durable.id)?.unitsPerS ?? null;
    if (speed === null) unknownSlots += slots;
    else {
      known += speed * slots;
      knownSlots += slots;
    }
  }
  const mean = knownSlots === 0 ? 0 : known / knownSlots;
  return { of: (id) => nodes.get(id)?.unitsPerS ?? null, all: known + mean * unknownSlots };
}

/** The dataset is read by one task, on the first machine with room for it, or else that would have it when free. */
function prepare(
  job: JobRecord,
  rooms: ReadonlyMap<NodeId, Room>,
  since: Since,
  assignments: Assignment[],
): void {
  const partition = job.preparation;
  if (partition?.phase !== 'waiting' || !isDue(partition, since)) return;
  let crowded: Room | null = null;
  for (const [id, room] of rooms) {
    if (room.kept || slotsFor(job.definition, room.compute, room.compute) === 0) continue;
    if (whyNot(job, room.node) !== null) continue;
    if (slotsFor(job.definition, room, room.compute) === 0) {
      crowded ??= room;
      continue;
    }
    occupy(room, job, 1);
    assignments.push({ ...attemptAt(job, partition, id), index: preparationIndex });
    return;
  }
  if (crowded) keep(crowded);
}
