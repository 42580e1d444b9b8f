import type { NodeId } from '#shared/lib/ids.ts';
import {
  preparationIndex,
  type JobCourse,
  type JobOnNode,
  type JobRecord,
  type PartitionPhase,
  type PartitionRecord,
  type Segment,
} from './job-state.ts';
import { isLive, unitsOf } from './job-shares.ts';
import { credited, idleNode, waitsAgain } from './job-tally.ts';

/**
 * A job while one event is applied to it. What is touched is copied once, however many partitions the event
 * changes; the tally is kept up with every change. `finish` gives the record it began with when nothing changed.
 */
export class JobDraft {
  readonly before: JobRecord;
  private nextCourse: JobCourse;
  private preparation: PartitionRecord | null;
  private partitions: PartitionRecord[] | null = null;
  private counts: Record<PartitionPhase, number>;
  private doneUnits: number;
  private nextRest: readonly Segment[];
  private again: Set<number> | null = null;
  private nodes: Map<NodeId, JobOnNode> | null = null;
  private changed = false;
  private readonly counted: boolean;

  /** Of machines, for people. */
  readonly nameOf: (id: NodeId) => string;

  constructor(before: JobRecord, nameOf: (id: NodeId) => string) {
    this.before = before;
    this.nameOf = nameOf;
    this.nextCourse = before.course;
    this.preparation = before.preparation;
    this.counts = { ...before.tally.counts };
    this.doneUnits = before.tally.doneUnits;
    this.nextRest = before.tally.rest;
    this.counted = before.definition.division.mode === 'counted';
  }

  get definition() {
    return this.before.definition;
  }

  get course(): JobCourse {
    return this.nextCourse;
  }

  get rest(): readonly Segment[] {
    return this.nextRest;
  }

  set rest(rest: readonly Segment[]) {
    this.nextRest = rest;
    this.changed = true;
  }

  /** How many partitions exist. */
  get size(): number {
    return (this.partitions ?? this.before.partitions).length;
  }

  all(): readonly PartitionRecord[] {
    return this.partitions ?? this.before.partitions;
  }

  partition(index: number): PartitionRecord | undefined {
    return index === preparationIndex ? (this.preparation ?? undefined) : this.all()[index];
  }

  count(phase: PartitionPhase): number {
    return this.counts[phase];
  }

  get waitingAgain(): number {
    return this.again?.size ?? this.before.tally.again.length;
  }

  setCourse(change: Partial<JobCourse>): void {
    this.nextCourse = { ...this.nextCourse, ...change };
    this.changed = true;
  }

  /** Puts a partition in its place, which is a new one at the end at most. */
  set(next: PartitionRecord): void {
    this.changed = true;
    const before = this.partition(next.index);
    for (const task of before?.tasks ?? []) if (isLive(task)) this.count1(task.nodeId, -1);
    for (const task of next.tasks) if (isLive(task)) this.count1(task.nodeId, 1);
    if (next.index === preparationIndex) {
      this.preparation = next;
      return;
    }
    this.partitions ??= [...this.before.partitions];
    this.partitions[next.index] = next;
    if (before) this.counts[before.phase] -= 1;
    this.counts[next.phase] += 1;
    if (next.phase === 'done' && before?.phase !== 'done') this.credit(next);
    const was = before !== undefined && waitsAgain(before, this.counted);
    const is = waitsAgain(next, this.counted);
    if (was !== is) {
      this.again ??= new Set(this.before.tally.again);
      if (is) this.again.add(next.index);
      else this.again.delete(next.index);
    }
  }

  node(id: NodeId): JobOnNode {
    return (this.nodes ?? this.before.tally.nodes).get(id) ?? idleNode;
  }

  setNode(id: NodeId, next: JobOnNode): void {
    this.nodes ??= new Map(this.before.tally.nodes);
    this.nodes.set(id, next);
    this.changed = true;
  }

  finish(): JobRecord {
    if (!this.changed) return this.before;
    return {
      definition: this.definition,
      course: this.nextCourse,
      preparation: this.preparation,
      partitions: this.all(),
      tally: {
        counts: this.counts,
        doneUnits: this.doneUnits,
        rest: this.nextRest,
        again: this.again ? [...this.again] : this.before.tally.again,
        nodes: this.nodes ?? this.before.tally.nodes,
      },
    };
  }

  private count1(id: NodeId, by: number): void {
    const node = this.node(id);
    this.setNode(id, { ...node, active: node.active + by });
  }

  private credit(done: PartitionRecord): void {
    this.doneUnits += unitsOf(done);
    const worker = done.tasks.findLast(({ outcome }) => outcome === 'done');
    if (worker) this.setNode(worker.nodeId, credited(this.node(worker.nodeId), done));
  }
}
