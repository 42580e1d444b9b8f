import type { TaskObservation } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import { commandsOf, draftOf, endWithout, heard, startedReport, stateOf, stop, type Draft } from './draft.ts';
import type { TasksCommand, TasksEvent } from './events.ts';
import { refusal, startNext } from './slots.ts';
import type { LiveTask, TaskRules, TasksState } from './state.ts';

/**
 * What a worker decides about tasks, pure: one fact in, the next state and what to do out.
 *
 * 1. Tasks come as differences. A task is started once; one that comes again is told again.
 * 2. They wait for their turn here, so that none waits for the controller (`slots`).
 * 3. Every end is told until it is settled: again in each session, and now and then within one; one that stays
 *    unsettled is journalled and outlives this program.
 * 4. A task that was told to end keeps the reason of that, unless it had finished before.
 * 5. Without a session tasks go on until their lease, counted from the controller's last word, is over.
 * 6. While the machine is not lent none begins, those that wait go back, and what runs steps back at once and ends
 *    in time; work that the owner forbids is refused, also while it runs.
 */
export function step(
  state: TasksState,
  event: TasksEvent,
  now: number,
): { readonly state: TasksState; readonly commands: readonly TasksCommand[] } {
  const draft = draftOf(state, now);
  apply(draft, event);
  startNext(draft);
  if (event.type === 'tasks') tellWaiting(draft, event.start);
  forgetWorks(draft);
  return { state: stateOf(draft), commands: commandsOf(draft) };
}

function apply(draft: Draft, event: TasksEvent): void {
  switch (event.type) {
    case 'tasks':
      for (const { jobId, work } of event.works) draft.works.set(jobId, work);
      for (const taskId of event.settled) settle(draft, taskId);
      for (const taskId of event.cancel) cancel(draft, taskId);
      for (const assignment of event.start) takeOn(draft, assignment);
      for (const go of event.go) {
        const task = draft.live.get(go.taskId);
        if (!task || task.verdict) continue;
        draft.live.set(go.taskId, { ...task, wentAt: task.wentAt ?? draft.now });
        draft.others.push({ type: 'go', go });
      }
      return;
    case 'heard':
      for (const report of event.reports) heard(draft, report);
      return;
    case 'welcome':
      draft.connected = true;
      draft.lastAckAt = draft.now;
      for (const task of draft.live.values()) {
        if (task.phase === 'running') draft.reports.push(startedReport(task));
      }
      for (const taskId of draft.ended.keys()) tellAgain(draft, taskId);
      return;
    case 'ack':
      draft.lastAckAt = draft.now;
      return;
    case 'session_lost':
      draft.connected = false;
      return;
    case 'rules':
      rulesChanged(draft, event.rules);
      return;
    case 'tick':
      tick(draft);
      return;
    case 'shutdown':
      draft.closing = true;
      for (const task of draft.live.values()) {
        stop(draft, task, 'lost', { code: 'shutting_down', message: 'the worker was stopped' });
      }
      journalEnds(draft, -1);
      return;
  }
}

type Assignment = Extract<TasksEvent, { type: 'tasks' }>['start'][number];

function takeOn(draft: Draft, assignment: Assignment): void {
  const { taskId, jobId } = assignment;
  if (draft.ended.has(taskId)) {
    tellAgain(draft, taskId);
    return;
  }
  if (draft.live.has(taskId)) return;
  const work = draft.works.get(jobId);
  if (!work) {
    draft.reports.push({
      type: 'failed',
      taskId,
      epoch: assignment.epoch,
      outcome: 'lost',
      error: { code: 'internal_error', message: `the work of job ${jobId} did not come with its task` },
      exitCode: null,
      usage: null,
      output: '',
    });
    return;
  }
  const task = {
    assignment,
    work,
    phase: 'waiting',
    handedAt: null,
    startedAt: null,
    wentAt: null,
    reachable: null,
    verdict: null,
  } as const;
  draft.live.set(taskId, task);
  const forbidden = refusal(work, draft.rules);
  if (forbidden) endWithout(draft, task, 'refused', forbidden);
  else if (draft.rules.awaySince !== null) endWithout(draft, task, 'lost', gaveWay(draft.rules));
  else if (draft.closing)
    endWithout(draft, task, 'lost', { code: 'shutting_down', message: 'the worker is being stopped' });
}

function settle(draft: Draft, taskId: TaskId): void {
  const ended = draft.ended.get(taskId);
  if (!ended) return;
  draft.ended.delete(taskId);
  if (ended.journalled) draft.toForget.push(taskId);
}

function cancel(draft: Draft, taskId: TaskId): void {
  const task = draft.live.get(taskId);
  if (task) stop(draft, task, 'cancelled', { code: 'cancelled', message: 'the job was cancelled' });
  else if (draft.ended.has(taskId)) tellAgain(draft, taskId);
}

function tellAgain(draft: Draft, taskId: TaskId): void {
  const ended = draft.ended.get(taskId);
  if (!ended) return;
  draft.ended.set(taskId, { ...ended, toldAt: draft.now });
  draft.reports.push(ended.report);
}

/** That they were taken in, for those of a frame whose turn has not come; kernels are too many and too short. */
function tellWaiting(draft: Draft, started: readonly Assignment[]): void {
  for (const { taskId, epoch } of started) {
    const task = draft.live.get(taskId);
    if (task?.phase === 'waiting' && task.work.kind !== 'kernel') {
      draft.reports.push({ type: 'staging', taskId, epoch });
    }
  }
}

function rulesChanged(draft: Draft, rules: TaskRules): void {
  const wasAway = draft.rules.awaySince !== null;
  const awaySince = rules.awaySince === null ? null : (draft.rules.awaySince ?? rules.awaySince);
  draft.rules = { ...rules, awaySince };
  if ((awaySince !== null) !== wasAway) {
    draft.others.push({ type: 'setPriority', low: awaySince !== null });
  }
  for (const task of draft.live.values()) {
    const forbidden = refusal(task.work, rules);
    if (forbidden) stop(draft, task, 'refused', forbidden);
    else if (awaySince !== null && task.phase === 'waiting') stop(draft, task, 'lost', gaveWay(rules));
  }
}

function gaveWay({ why }: TaskRules): ErrorBody {
  return { code: 'node_gave_way', message: `this machine is not lent now${why === '' ? '' : `: ${why}`}` };
}

function tick(draft: Draft): void {
  const { now, rules, config } = draft;
  const givenWay = rules.awaySince !== null && now - rules.awaySince >= config.giveWayMs;
  const silentMs = draft.connected || draft.lastAckAt === null ? 0 : now - draft.lastAckAt;
  for (const task of draft.live.values()) {
    const { leaseMs, timeoutMs } = task.assignment;
    const since = runsSince(task);
    if (silentMs >= leaseMs) {
      const message = `the controller was out of reach for ${Math.round(leaseMs / 1_000)} s`;
      stop(draft, task, 'lost', { code: 'lease_expired', message });
    } else if (since !== null && now - since >= timeoutMs) {
      const message = `it was not finished within ${timeoutMs / 1_000} s`;
      stop(draft, task, 'failed', { code: 'task_timeout', message });
    } else if (givenWay) stop(draft, task, 'lost', gaveWay(rules));
  }
  journalEnds(draft, config.journalAfterMs);
  if (!draft.connected) return;
  for (const [taskId, { toldAt }] of draft.ended) {
    if (now - toldAt >= config.repeatMs) tellAgain(draft, taskId);
  }
}

/** A kernel that waits behind others in its host has not begun, nor has a rank that waits for its gang. */
function runsSince({ work, startedAt, handedAt, wentAt }: LiveTask): number | null {
  if (work.kind === 'gang') return wentAt;
  return work.kind === 'kernel' ? startedAt : (startedAt ?? handedAt);
}

function journalEnds(draft: Draft, afterMs: number): void {
  for (const [taskId, ended] of draft.ended) {
    if (ended.journalled || draft.now - ended.endedAt < afterMs) continue;
    draft.ended.set(taskId, { ...ended, journalled: true });
    draft.toJournal.push(ended.report);
  }
}

/** Works of jobs without a live task go; the controller sends them again with the next task. */
function forgetWorks(draft: Draft): void {
  if (draft.works.size === 0) return;
  const needed = new Set<string>();
  for (const { assignment } of draft.live.values()) needed.add(assignment.jobId);
  for (const jobId of draft.works.keys()) {
    if (needed.has(jobId)) continue;
    draft.works.delete(jobId);
    draft.dropped.add(jobId);
  }
}

/** Every task that is not settled, for hello. */
export function observeTasks({ live, ended }: TasksState): TaskObservation[] {
  return [
    ...[...live].map(([taskId, { assignment, phase }]) => ({
      taskId,
      epoch: assignment.epoch,
      phase: phase === 'running' ? ('running' as const) : ('waiting' as const),
    })),
    ...[...ended].map(([taskId, { report }]) => ({ taskId, epoch: report.epoch, phase: 'ended' as const })),
  ];
}
