import type { NodeId } from '#shared/lib/ids.ts';
import type { Range } from '#shared/domain/task.ts';
import type {
  JobCourse,
  JobDefinition,
  JobRecord,
  NodeDistribution,
  PartitionRecord,
  Segment,
  TaskRecord,
} from './job-state.ts';

/**
 * The part of a job that nobody has begun: segments in order, in units of input with `auto` division, in indexes
 * with counted partitions.
 */
export function initialPartitions(definition: JobDefinition, total: number): PartitionRecord[] {
  const { division } = definition;
  // No input at all is one empty partition, so that a kernel has its neutral value and a file its length 0.
  if (division.mode === 'auto') return total === 0 ? [untouched(0, { from: 0, to: 0 })] : [];
  const count = countOf(division, total);
  return Array.from({ length: count }, (_, index) => counted(division, index, count, total));
}

type Counted = Extract<JobDefinition['division'], { mode: 'counted' }>;

function countOf({ count, ranged }: Counted, total: number): number {
  return ranged ? Math.max(1, Math.min(count, total)) : count;
}

function counted({ ranged }: Counted, index: number, count: number, total: number): PartitionRecord {
  return untouched(index, ranged ? equalRange(index, count, total) : null);
}

/** How many there are, those included that `lean` has left out. */
export function partitionCount({ definition, course, partitions }: Omit<JobRecord, 'tally'>): number {
  const { division } = definition;
  if (division.mode === 'auto' || course.total === null) return partitions.length;
  return countOf(division, course.total);
}

/** One of them, also one that `lean` has left out. */
export function partitionAt(job: Omit<JobRecord, 'tally'>, index: number): PartitionRecord | undefined {
  const kept = job.partitions[index];
  const { division } = job.definition;
  const { total } = job.course;
  if (kept || division.mode === 'auto' || total === null) return kept;
  const count = countOf(division, total);
  return index >= 0 && index < count ? counted(division, index, count, total) : undefined;
}

/**
 * Of a finished job the partitions without those at the end that were never given to a machine: nothing is known of
 * them but their index, and there may be 100,000 of them in each of thousands of jobs. `partitionAt` makes them anew.
 */
export function lean(partitions: readonly PartitionRecord[]): readonly PartitionRecord[] {
  const end = partitions.findLastIndex((partition) => !isUntouched(partition)) + 1;
  return end === partitions.length ? partitions : partitions.slice(0, end);
}

function isUntouched({ phase, epoch, attempt, nextAttemptAt }: PartitionRecord): boolean {
  return phase === 'waiting' && epoch === 0 && attempt === 0 && nextAttemptAt === null;
}

export function untouched(index: number, range: Range | null, owner: NodeId | null = null): PartitionRecord {
  return {
    index,
    range,
    phase: 'waiting',
    epoch: 0,
    attempt: 0,
    failures: 0,
    losses: 0,
    owner,
    nextAttemptAt: null,
    error: null,
    finishedAt: null,
    tasks: [],
  };
}

/** The `index`th of `count` ranges that differ by one unit at most. */
export function equalRange(index: number, count: number, total: number): Range {
  const each = Math.floor(total / count);
  const larger = total % count;
  const from = index * each + Math.min(index, larger);
  return { from, to: from + each + (index < larger ? 1 : 0) };
}

export function unitsOf(partition: PartitionRecord): number {
  return partition.range ? partition.range.to - partition.range.from : 1;
}

/** What is in no partition yet (`auto`), or in partitions that were never assigned (counted). */
export function restOf(
  definition: JobDefinition,
  course: JobCourse,
  partitions: readonly PartitionRecord[],
): Segment[] {
  const rest: Segment[] = [];
  const add = (from: number, to: number): void => {
    const last = rest.at(-1);
    if (from >= to) return;
    if (last?.to === from) rest[rest.length - 1] = { ...last, to };
    else rest.push({ from, to, owner: null });
  };
  if (definition.division.mode === 'counted') {
    for (const { index, phase, attempt } of partitions) {
      if (phase === 'waiting' && attempt === 0) add(index, index + 1);
    }
  } else if (course.total !== null) {
    let from = 0;
    const taken = partitions
      .flatMap(({ range }) => range ?? [])
      .sort((a, b) => a.from - b.from || a.to - b.to);
    for (const range of taken) {
      add(from, range.from);
      from = Math.max(from, range.to);
    }
    add(from, course.total);
  }
  return rest;
}

/**
 * Gives the rest to its owners. `manual`: each machine gets what is missing to its percentage of the whole, in
 * whole units; what machines are over it, by what they have begun, comes off the others in proportion.
 */
export function shareOut(
  rest: readonly Segment[],
  distribution: NodeDistribution,
  partitions: readonly PartitionRecord[],
  counted: boolean,
): Segment[] {
  if (distribution.mode === 'auto') return merged(rest.map((segment) => ({ ...segment, owner: null })));
  const { shares } = distribution;
  const had = new Map<NodeId, number>();
  let whole = 0;
  for (const partition of partitions) {
    const worker = partition.tasks.findLast(({ outcome }) => outcome === 'running' || outcome === 'done');
    if (!worker || partition.phase === 'waiting') continue;
    const size = counted ? 1 : unitsOf(partition);
    whole += size;
    had.set(worker.nodeId, (had.get(worker.nodeId) ?? 0) + size);
  }
  const left = rest.reduce((sum, { from, to }) => sum + to - from, 0);
  whole += left;
  const weights = shares.reduce((sum, { weight }) => sum + weight, 0);
  const wants = shares.map(({ nodeId, weight }) =>
    Math.max(0, (whole * weight) / weights - (had.get(nodeId) ?? 0)),
  );
  const wanted = wants.reduce((sum, want) => sum + want, 0);
  const sizes = wholeParts(
    left,
    wanted > 0 ? wants.map((want) => want / wanted) : shares.map(({ weight }) => weight / weights),
  );
  const segments: Segment[] = [];
  const queue = merged(rest.map((segment) => ({ ...segment, owner: null })));
  shares.forEach(({ nodeId }, position) => {
    let missing = sizes[position] ?? 0;
    while (missing > 0) {
      const segment = queue[0];
      if (!segment) break;
      const to = Math.min(segment.to, segment.from + missing);
      segments.push({ from: segment.from, to, owner: nodeId });
      missing -= to - segment.from;
      if (to === segment.to) queue.shift();
      else queue[0] = { ...segment, from: to };
    }
  });
  return segments;
}

/** `total` in whole numbers by fractions that add up to 1: the largest remainders get what rounding leaves. */
export function wholeParts(total: number, fractions: readonly number[]): number[] {
  const exact = fractions.map((fraction) => fraction * total);
  const parts = exact.map(Math.floor);
  let left = total - parts.reduce((sum, part) => sum + part, 0);
  const byRemainder = exact
    .map((value, index) => ({ index, remainder: value - Math.floor(value) }))
    .sort((a, b) => b.remainder - a.remainder || a.index - b.index);
  for (const { index } of byRemainder) {
    if (left <= 0) break;
    parts[index] = (parts[index] ?? 0) + 1;
    left -= 1;
  }
  return parts;
}

/** The rest without [from, to). */
export function without(rest: readonly Segment[], from: number, to: number): Segment[] {
  const next: Segment[] = [];
  for (const segment of rest) {
    if (segment.to <= from || segment.from >= to) {
      next.push(segment);
      continue;
    }
    if (segment.from < from) next.push({ ...segment, to: from });
    if (segment.to > to) next.push({ ...segment, from: to });
  }
  return next;
}

export function merged(rest: readonly Segment[]): Segment[] {
  const next: Segment[] = [];
  for (const segment of [...rest].sort((a, b) => a.from - b.from)) {
    const last = next.at(-1);
    if (last && last.to === segment.from && last.owner === segment.owner) {
      next[next.length - 1] = { ...last, to: segment.to };
    } else next.push(segment);
  }
  return next;
}

export function isLive(task: TaskRecord): boolean {
  return task.outcome === 'running';
}
