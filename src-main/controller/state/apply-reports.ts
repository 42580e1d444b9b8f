import type { NodeId, TaskId } from '#shared/lib/ids.ts';
import type { Seek, TaskReport, TaskResult, TaskUsage } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { lostAttemptLimit } from '#shared/config.ts';
import type { Assignment, TaskEnd } from './job-events.ts';
import type { JobDraft } from './job-draft.ts';
import { initialPartitions, isLive, shareOut, restOf, untouched, without } from './job-shares.ts';
import { measured } from './job-tally.ts';
import {
  keptTasks,
  preparationIndex,
  type JobDefinition,
  type PartitionPhase,
  type PartitionRecord,
  type TaskRecord,
} from './job-state.ts';
import { unitsOf } from './job-shares.ts';

/** What becomes of partitions and their attempts. Every function leaves the draft alone when the fact is stale. */

/** Of what was submitted, the same in every attempt. */
const lastingFaults: ReadonlySet<string> = new Set(['dataset_invalid', 'job_invalid']);

const longestBackoffMs = 60_000;

/** Before what has failed so many times is tried again: doubled each time, at most a minute. */
export function backoffAfter({ retry }: JobDefinition, failures: number): number {
  return Math.min(longestBackoffMs, retry.backoffMs * 2 ** (failures - 1));
}

export function assign(draft: JobDraft, assignment: Assignment, at: number): void {
  const { index, epoch, attempt, range, owner } = assignment;
  const { division } = draft.definition;
  let partition = draft.partition(index);
  if (!partition) {
    if (division.mode !== 'auto' || index !== draft.size || !range) return;
    partition = untouched(index, range, owner);
    draft.rest = without(draft.rest, range.from, range.to);
  }
  if (epoch <= partition.epoch) return;
  const free = assignment.speculative ? partition.phase === 'active' : partition.phase === 'waiting';
  if (!free) return;
  if (division.mode === 'counted' && partition.attempt === 0 && index !== preparationIndex) {
    draft.rest = without(draft.rest, index, index + 1);
  }
  const task: TaskRecord = {
    id: assignment.taskId,
    attempt,
    epoch,
    nodeId: assignment.nodeId,
    speculative: assignment.speculative,
    outcome: 'running',
    assignedAt: at,
    startedAt: null,
    progress: 0,
    endedAt: null,
    error: null,
    exitCode: null,
    usage: null,
    reach: null,
  };
  draft.set({
    ...partition,
    phase: 'active',
    epoch,
    attempt,
    owner,
    nextAttemptAt: null,
    tasks: kept([...partition.tasks, task]),
  });
  const { gang } = draft.course;
  // The first rank of a start: all of them are assigned by one event.
  if (gang && partition.index === 0)
    draft.setCourse({ gang: { ...gang, start: gang.start + 1, goAt: null } });
  if (draft.course.startedAt === null) draft.setCourse({ startedAt: at });
  if (draft.course.phase === 'queued') draft.setCourse({ phase: 'running' });
}

/** One word of a worker. Only the task that was given to it, in its own epoch and not yet ended, is listened to. */
export function report(draft: JobDraft, index: number, nodeId: NodeId, word: TaskReport, at: number): void {
  const partition = draft.partition(index);
  const task = partition?.tasks.find(({ id }) => id === word.taskId);
  if (!partition || !task || !isLive(task) || task.epoch !== word.epoch || task.nodeId !== nodeId) return;
  switch (word.type) {
    case 'staging':
      return;
    case 'started': {
      const reach = word.host === undefined ? task.reach : { host: word.host, ports: word.ports ?? [] };
      return draft.set(withTask(partition, { ...task, startedAt: task.startedAt ?? at, reach }));
    }
    case 'progress':
      return draft.set(withTask(partition, { ...task, progress: word.fraction }));
    case 'done':
      return done(draft, partition, task, word, at);
    case 'failed': {
      // Nobody told it to: counted, so that a worker which keeps doing this does not go round for ever.
      const told = draft.course.ending !== null || draft.course.gang?.stopping;
      const outcome = word.outcome === 'cancelled' && !told ? 'lost' : word.outcome;
      return ended(draft, partition, task, { ...word, outcome, notBeforeAt: null }, at);
    }
  }
}

export function endByController(draft: JobDraft, end: TaskEnd, at: number): void {
  const partition = draft.partition(end.index);
  const task = partition?.tasks.find(({ id }) => id === end.taskId);
  if (!partition || !task || !isLive(task) || task.epoch !== end.epoch) return;
  ended(draft, partition, task, { ...end, exitCode: null, usage: null }, at);
}

export function fetched(draft: JobDraft, index: number, epoch: number, at: number): void {
  const partition = draft.partition(index);
  if (partition?.phase !== 'fetching' || draft.course.ending) return;
  if (acceptedTask(partition)?.epoch !== epoch) return;
  draft.set({ ...partition, phase: 'done', finishedAt: at });
}

export function fetchFailed(
  draft: JobDraft,
  index: number,
  epoch: number,
  error: ErrorBody,
  at: number,
): void {
  const partition = draft.partition(index);
  const task = partition && acceptedTask(partition);
  if (partition?.phase !== 'fetching' || task?.epoch !== epoch) return;
  const live = { ...partition, phase: 'active' as const };
  ended(
    draft,
    live,
    task,
    { outcome: 'lost', error, exitCode: null, usage: task.usage, notBeforeAt: null },
    at,
  );
}

/** The attempt whose result counts. */
export function acceptedTask(partition: PartitionRecord): TaskRecord | undefined {
  return partition.tasks.findLast(({ outcome }) => outcome === 'done');
}

interface Done {
  readonly taskId: TaskId;
  readonly result: TaskResult;
  readonly usage: TaskUsage;
}

function done(draft: JobDraft, partition: PartitionRecord, task: TaskRecord, word: Done, at: number): void {
  const { course } = draft;
  if (course.ending || course.gang?.stopping) {
    // It was to be cancelled and was faster: nobody waits for its result any more.
    const error: ErrorBody = { code: 'cancelled', message: 'The job was told to end.' };
    return ended(
      draft,
      partition,
      task,
      { outcome: 'cancelled', error, exitCode: null, usage: word.usage, notBeforeAt: null },
      at,
    );
  }
  const preparing = partition.index === preparationIndex;
  const index = preparing ? indexOf(word.result) : null;
  if (preparing && !index) {
    const error: ErrorBody = {
      // Not the dataset's fault: another machine may do better.
      code: 'task_failed',
      message: 'The dataset was read with no usable result.',
    };
    return ended(
      draft,
      partition,
      task,
      { outcome: 'failed', error, exitCode: null, usage: word.usage, notBeforeAt: null },
      at,
    );
  }
  const fetching = word.result.artifacts.length > 0;
  const tasks = partition.tasks.map((other): TaskRecord => {
    if (other === task) {
      return { ...task, outcome: 'done', endedAt: at, progress: 1, usage: word.usage };
    }
    return isLive(other) ? { ...other, outcome: 'superseded', endedAt: at } : other;
  });
  if (!preparing) {
    draft.setNode(task.nodeId, measured(draft.node(task.nodeId), unitsOf(partition), word.usage));
  }
  draft.set({
    ...partition,
    phase: fetching ? 'fetching' : 'done',
    error: null,
    finishedAt: fetching ? null : at,
    tasks,
  });
  if (index) prepared(draft, index);
}

/** The dataset has been read: its partitions come into being. */
function prepared(draft: JobDraft, index: { records: number; seeks: Seek[] }): void {
  const { definition } = draft;
  draft.setCourse({ phase: 'queued', total: index.records, seeks: index.seeks });
  const partitions = initialPartitions(definition, index.records);
  for (const partition of partitions) draft.set(partition);
  const rest = restOf(definition, draft.course, partitions);
  draft.rest = shareOut(rest, draft.course.distribution, partitions, definition.division.mode === 'counted');
}

interface End {
  readonly outcome: 'failed' | 'crashed' | 'lost' | 'refused' | 'cancelled';
  readonly error: ErrorBody;
  readonly exitCode: number | null;
  readonly usage: TaskUsage | null;
  readonly notBeforeAt: number | null;
}

/**
 * An attempt is over without a result.
 * 1. While another copy runs the partition goes on.
 * 2. A job that is told to end tries nothing again; nor does a gang rank by rank, nor one whose output the controller's
 *    store has no room for: made again it would find none either.
 * 3. `failed` and `crashed` count against the job's retry policy, unless no other attempt can end otherwise; `lost` against a limit of its own, so that a
 *    partition which takes its machines down does not go round for ever; `refused` keeps it from that machine
 *    until that says anew what it does for others.
 */
function ended(draft: JobDraft, partition: PartitionRecord, task: TaskRecord, end: End, at: number): void {
  const { course, definition } = draft;
  const stopping = definition.gang && course.gang?.stopping;
  // Its worker knows only that it was told to.
  const error: ErrorBody =
    stopping && !course.ending && end.outcome === 'cancelled'
      ? { code: 'cancelled', message: 'It ended with the gang.' }
      : end.error;
  const over: TaskRecord = {
    ...task,
    outcome: end.outcome,
    endedAt: at,
    error,
    exitCode: end.exitCode,
    usage: end.usage,
  };
  const base = { ...withTask(partition, over), error };
  if (end.outcome === 'refused') {
    draft.setNode(task.nodeId, { ...draft.node(task.nodeId), refused: { at, error: end.error } });
  }
  const finish = (phase: PartitionPhase, rest: Partial<PartitionRecord> = {}): void =>
    draft.set({ ...base, phase, finishedAt: phase === 'waiting' ? null : at, ...rest });
  // 1.
  if (base.tasks.some(isLive)) return draft.set(base);
  // 2.
  if (course.ending) return finish('cancelled');
  if (storeIsFull(error)) {
    draft.setCourse({ error, ending: { at, as: 'failed' } });
    return finish('cancelled');
  }
  if (definition.gang && course.gang) {
    if (!stopping) {
      const { index: rank } = partition;
      const lost = end.outcome !== 'failed' && end.outcome !== 'crashed';
      const first: ErrorBody = {
        ...error,
        message: `rank ${rank} on ${draft.nameOf(task.nodeId)}: ${error.message}`,
      };
      draft.setCourse({ gang: { ...course.gang, stopping: { at, error: first, lost, rank } } });
    }
    return finish('waiting', { nextAttemptAt: end.notBeforeAt });
  }
  // 3.
  const failures = partition.failures + (end.outcome === 'failed' || end.outcome === 'crashed' ? 1 : 0);
  const losses = partition.losses + (end.outcome === 'lost' ? 1 : 0);
  const { retry } = definition;
  const unworthy =
    end.exitCode !== null && retry.exitCodes !== null && !retry.exitCodes.includes(end.exitCode);
  const hopeless = end.outcome === 'failed' && (unworthy || lastingFaults.has(error.code));
  if (hopeless || failures >= retry.attempts || losses >= lostAttemptLimit) {
    finish('failed', { failures, losses });
    const what =
      partition.index === preparationIndex ? 'Reading the dataset' : `Partition ${partition.index}`;
    const tries = failures + losses;
    const message = `${what} failed${tries > 1 ? ` ${tries} times, the last time` : ''}: ${error.message}`;
    const poisoned: ErrorBody = { code: 'partition_poisoned', message };
    if (partition.index === preparationIndex)
      draft.setCourse({ error: poisoned, ending: { at, as: 'failed' } });
    else if (!course.error) draft.setCourse({ error: poisoned });
    return;
  }
  const backsOffUntil = failures > partition.failures ? at + backoffAfter(definition, failures) : null;
  const nextAttemptAt =
    backsOffUntil === null ? end.notBeforeAt : Math.max(backsOffUntil, end.notBeforeAt ?? 0);
  finish('waiting', { failures, losses, nextAttemptAt });
}

/** Of a task on the controller's own machine, which shares its store; others' results are refused when they are fetched. */
function storeIsFull({ code, reasons }: ErrorBody): boolean {
  return code === 'disk_full' && (reasons ?? []).some((reason) => reason.code === 'quota');
}

function withTask(partition: PartitionRecord, next: TaskRecord): PartitionRecord {
  return { ...partition, tasks: partition.tasks.map((task) => (task.id === next.id ? next : task)) };
}

function kept(tasks: TaskRecord[]): TaskRecord[] {
  let extra = tasks.length - keptTasks;
  return extra <= 0 ? tasks : tasks.filter((task) => isLive(task) || (extra -= 1) < 0);
}

/** `{records, seeks: [{record, byte}]}`; null: it is something else. */
function indexOf(result: TaskResult): { records: number; seeks: Seek[] } | null {
  const { value } = result;
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null;
  const { records, seeks } = value;
  if (!isCount(records) || !Array.isArray(seeks) || seeks.length > 4_096) return null;
  const places: Seek[] = [];
  for (const seek of seeks) {
    if (seek === null || typeof seek !== 'object' || Array.isArray(seek)) return null;
    const { record, byte } = seek;
    if (!isCount(record) || !isCount(byte) || record < (places.at(-1)?.record ?? 0)) return null;
    places.push({ record, byte });
  }
  return { records, seeks: places };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
