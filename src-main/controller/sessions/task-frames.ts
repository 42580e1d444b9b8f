import type { JobId, NodeId, TaskId } from '#shared/lib/ids.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { GangGo, TaskAssignment, TaskObservation, TaskReport } from '#shared/domain/task.ts';
import type { Runtime, Turn } from '../runtime/runtime.ts';
import type { ControllerEvent } from '../state/events.ts';
import type { TaskEnd } from '../state/job-events.ts';
import { findTask, isStopping, isWanted, liveTasks, openJobs } from '../state/job-selectors.ts';
import { isLive } from '../state/job-shares.ts';
import { preparationIndex, type JobDefinition, type JobRecord } from '../state/job-state.ts';
import type { ControllerState } from '../state/state.ts';
import type { SendText } from './desired.ts';
import { assignmentOf, gangGoOf } from './task-assignment.ts';

/**
 * Tasks in sessions, as differences. Nothing is sent before the state that it follows from is on disk:
 * 1. Assignments, as they are recorded; `cancel` for what nobody wants any more.
 * 2. What workers report is gathered for one turn of the event loop and recorded together; then every end is
 *    settled, whether it was taken or came too late, and whoever runs what nobody wants is told.
 * 3. A session begins with the worker's list: what it does not name is lost, what is not wanted is cancelled.
 */
export interface TaskFrames {
  /** What a list from hello makes known; to be recorded together with the opening of the session. */
  reconcile(nodeId: NodeId, observed: readonly TaskObservation[]): ControllerEvent[];
  /** The session is open and recorded. */
  opened(nodeId: NodeId, observed: readonly TaskObservation[]): void;
  reported(nodeId: NodeId, reports: readonly TaskReport[]): void;
  /** The session of this node is over: what it was to be told is forgotten. */
  closed(nodeId: NodeId): void;
  stop(): void;
}

export interface TaskFramesOptions {
  readonly runtime: Pick<Runtime, 'state' | 'dispatch' | 'onTurn'>;
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly send: SendText;
}

/** Of the four lists of a frame, each; with the works it stays below the limit of a frame. */
const itemsPerFrame = 512;
/**
 * Each names all ranks of its gang, which can be half a megabyte: they go in frames of their own, which hold one that is
 * larger than this alone.
 */
const gosPerFrameBytes = 256 * 1024;
/** Works have at most 512 KiB, as they are submitted. */
const worksPerFrameBytes = 600 * 1024;

interface Outbox {
  readonly start: Map<TaskId, { readonly job: JobDefinition; readonly assignment: TaskAssignment }>;
  readonly go: Map<TaskId, GangGo>;
  readonly cancel: Set<TaskId>;
  readonly settled: Set<TaskId>;
}

export function createTaskFrames(options: TaskFramesOptions): TaskFrames {
  const { runtime, clock, leaseMs, send } = options;
  const outboxes = new Map<NodeId, Outbox>();
  const heard = new Map<NodeId, TaskReport[]>();
  let gathering: NodeJS.Immediate | null = null;
  let written = true;

  const outbox = (nodeId: NodeId): Outbox => {
    const known = outboxes.get(nodeId);
    if (known) return known;
    const created = {
      start: new Map(),
      go: new Map(),
      cancel: new Set<TaskId>(),
      settled: new Set<TaskId>(),
    };
    outboxes.set(nodeId, created);
    return created;
  };

  const cancel = (nodeId: NodeId, taskId: TaskId): void => {
    // What was not sent yet need not be called back.
    if (outboxes.get(nodeId)?.start.delete(taskId)) return;
    outbox(nodeId).cancel.add(taskId);
  };

  /** To the ranks of a gang, or to those on one machine. */
  const tellToGo = (job: JobRecord, only?: NodeId): void => {
    for (const { nodeId, go } of gangGoOf(job)) {
      if (only === undefined || only === nodeId) outbox(nodeId).go.set(go.taskId, go);
    }
  };

  const follow = (state: ControllerState, event: ControllerEvent): void => {
    switch (event.type) {
      case 'tasks-assigned':
        for (const { taskId } of event.assignments) {
          const found = findTask(state.jobs, taskId);
          if (!found || !isLive(found.task)) continue;
          const { job, partition, task } = found;
          const assignment = assignmentOf(job, partition, task, leaseMs);
          outbox(task.nodeId).start.set(taskId, { job: job.definition, assignment });
        }
        return;
      case 'tasks-ended':
        for (const { taskId } of event.ends) {
          const nodeId = findTask(state.jobs, taskId)?.task.nodeId;
          if (nodeId) cancel(nodeId, taskId);
        }
        return;
      case 'gang-started': {
        const job = state.jobs.get(event.jobId);
        if (job) tellToGo(job);
        return;
      }
      default:
        return;
    }
  };

  /** Jobs that are told to end since, as a whole or all ranks of a gang: what runs of them is cancelled. */
  const stopJobs = (before: ControllerState, after: ControllerState): void => {
    if (before.jobs === after.jobs) return;
    for (const job of openJobs(after.jobs)) {
      const was = before.jobs.get(job.definition.id);
      if (was === job || !isStopping(job) || (was && isStopping(was))) continue;
      for (const { task } of liveTasks(job)) cancel(task.nodeId, task.id);
    }
  };

  const deliver = (): void => {
    if (!written || outboxes.size === 0) return;
    for (const [nodeId, box] of outboxes) for (const text of framesOf(box)) send(nodeId, text);
    outboxes.clear();
  };

  runtime.onTurn(({ before, after, events, written: onDisk }: Turn) => {
    written = onDisk;
    for (const event of events) follow(after, event);
    stopJobs(before, after);
    deliver();
  });

  const record = (): void => {
    gathering = null;
    const words = [...heard];
    heard.clear();
    const at = clock.now();
    runtime.dispatch(
      ...words.map(([nodeId, reports]) => ({ type: 'tasks-reported', at, nodeId, reports }) as const),
    );
    const { state } = runtime;
    for (const [nodeId, reports] of words) {
      for (const report of reports) answer(state, nodeId, report);
      // It began and ended within one turn.
      const box = outboxes.get(nodeId);
      for (const taskId of box?.settled ?? []) box?.cancel.delete(taskId);
    }
    deliver();
  };

  /** What has become of a report: looked up, for one that changed nothing is in no turn. */
  const answer = (state: ControllerState, nodeId: NodeId, { type, taskId, epoch }: TaskReport): void => {
    const found = findTask(state.jobs, taskId);
    const own = found?.task.nodeId === nodeId && found.task.epoch === epoch ? found : null;
    if (type !== 'done' && type !== 'failed') {
      if (!own || !isWanted(own.job, own.task)) cancel(nodeId, taskId);
      return;
    }
    outbox(nodeId).settled.add(taskId);
    if (!own) return;
    for (const other of own.partition.tasks) {
      if (other.outcome === 'superseded' && other.endedAt === own.task.endedAt)
        cancel(other.nodeId, other.id);
    }
  };

  return {
    reconcile(nodeId, observed) {
      const at = clock.now();
      const named = new Map(observed.map((task) => [task.taskId, task]));
      const ends: TaskEnd[] = [];
      const reports: TaskReport[] = [];
      const name = runtime.state.nodes.get(nodeId)?.durable.name ?? nodeId.slice(0, 12);
      for (const job of runtime.state.jobs.values()) {
        if ((job.tally.nodes.get(nodeId)?.active ?? 0) === 0) continue;
        for (const { partition, task } of liveTasks(job)) {
          if (task.nodeId !== nodeId) continue;
          const { id: taskId, epoch } = task;
          const known = named.get(taskId);
          if (known?.epoch === epoch) {
            if (known.phase === 'running') reports.push({ type: 'started', taskId, epoch });
            continue;
          }
          const jobId = job.definition.id;
          const error = { code: 'task_lost', message: `${name} does not have it any more.` } as const;
          ends.push({
            jobId,
            index: partition.index,
            epoch,
            taskId,
            outcome: 'lost',
            error,
            notBeforeAt: null,
          });
        }
      }
      return [
        ...(ends.length > 0 ? [{ type: 'tasks-ended', at, ends } as const] : []),
        ...(reports.length > 0 ? [{ type: 'tasks-reported', at, nodeId, reports } as const] : []),
      ];
    },
    opened(nodeId, observed) {
      const { jobs } = runtime.state;
      for (const { taskId, epoch, phase } of observed) {
        const found = findTask(jobs, taskId);
        const wanted =
          found?.task.nodeId === nodeId && found.task.epoch === epoch && isWanted(found.job, found.task);
        if (wanted) {
          // The word to go may have been lost with the session before.
          if (found.job.course.gang?.goAt != null) tellToGo(found.job, nodeId);
          continue;
        }
        // An end that is still to be heard of is settled when it is; a late one has nothing to say.
        if (phase !== 'ended') cancel(nodeId, taskId);
        else if (!found || !isLive(found.task)) outbox(nodeId).settled.add(taskId);
      }
      deliver();
    },
    reported(nodeId, reports) {
      const waiting = heard.get(nodeId);
      if (waiting) waiting.push(...reports);
      else heard.set(nodeId, [...reports]);
      gathering ??= setImmediate(record);
    },
    closed: (nodeId) => void outboxes.delete(nodeId),
    stop() {
      if (gathering) clearImmediate(gathering);
      gathering = null;
    },
  };
}

const textOfWork = new WeakMap<JobDefinition, string>();

function workText(definition: JobDefinition, preparing: boolean): string {
  const { id: jobId } = definition;
  if (preparing) return JSON.stringify({ jobId, work: definition.index });
  let text = textOfWork.get(definition);
  if (text === undefined) {
    text = JSON.stringify({ jobId, work: definition.work });
    textOfWork.set(definition, text);
  }
  return text;
}

/** Frames of bounded size that say all that is in the box; a task is known before it is told to go. */
function* framesOf(box: Outbox): Generator<string> {
  const starts = [...box.start.values()];
  const cancels = [...box.cancel];
  const settled = [...box.settled];
  while (starts.length + cancels.length + settled.length > 0) {
    const works = new Map<JobId, string>();
    let bytes = 0;
    let count = 0;
    for (const { job, assignment } of starts) {
      if (!works.has(job.id)) {
        const text = workText(job, assignment.index === preparationIndex);
        if (works.size > 0 && (bytes + text.length > worksPerFrameBytes || works.size === 64)) break;
        works.set(job.id, text);
        bytes += text.length;
      }
      count += 1;
      if (count === itemsPerFrame) break;
    }
    const start = JSON.stringify(starts.splice(0, count).map(({ assignment }) => assignment));
    const rest = JSON.stringify({
      go: [],
      cancel: cancels.splice(0, itemsPerFrame),
      settled: settled.splice(0, itemsPerFrame),
    });
    yield `{"type":"tasks","works":[${[...works.values()].join(',')}],"start":${start},${rest.slice(1)}`;
  }
  const go = (texts: readonly string[]): string =>
    `{"type":"tasks","works":[],"start":[],"go":[${texts.join(',')}],"cancel":[],"settled":[]}`;
  let texts: string[] = [];
  let bytes = 0;
  for (const one of box.go.values()) {
    const text = JSON.stringify(one);
    if (texts.length > 0 && (bytes + text.length > gosPerFrameBytes || texts.length === itemsPerFrame)) {
      yield go(texts);
      texts = [];
      bytes = 0;
    }
    texts.push(text);
    bytes += text.length;
  }
  if (texts.length > 0) yield go(texts);
}
