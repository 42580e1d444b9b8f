import type { TaskReport, Work } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';
import type { HostReport, TasksCommand, TaskToStart } from './events.ts';
import type { EndedTask, EndReport, FailedOutcome, LiveTask, TaskRules, TasksState } from './state.ts';

/**
 * One step in the making. Its maps are copies that may be changed in place: a step can touch a thousand tasks, and
 * copies them once.
 */
export interface Draft {
  readonly now: number;
  readonly config: TasksState['config'];
  readonly live: Map<TaskId, LiveTask>;
  readonly ended: Map<TaskId, EndedTask>;
  readonly works: Map<JobId, Work>;
  connected: boolean;
  lastAckAt: number | null;
  rules: TaskRules;
  closing: boolean;
  readonly reports: TaskReport[];
  readonly starts: TaskToStart[];
  readonly stops: { readonly taskId: TaskId; readonly graceMs: number }[];
  readonly toJournal: EndReport[];
  readonly toForget: TaskId[];
  readonly dropped: Set<JobId>;
  readonly others: TasksCommand[];
}

export function draftOf(state: TasksState, now: number): Draft {
  return {
    ...state,
    now,
    live: new Map(state.live),
    ended: new Map(state.ended),
    works: new Map(state.works),
    reports: [],
    starts: [],
    stops: [],
    toJournal: [],
    toForget: [],
    dropped: new Set(),
    others: [],
  };
}

export function stateOf({ config, live, ended, works, ...rest }: Draft): TasksState {
  const { connected, lastAckAt, rules, closing } = rest;
  return { config, live, ended, works, connected, lastAckAt, rules, closing };
}

/** What the step wishes: ends before starts, since they give processors back; word of it last. */
export function commandsOf(draft: Draft): TasksCommand[] {
  const commands: TasksCommand[] = [];
  for (const graceMs of new Set(draft.stops.map((stop) => stop.graceMs))) {
    const taskIds = draft.stops.filter((stop) => stop.graceMs === graceMs).map(({ taskId }) => taskId);
    commands.push({ type: 'stop', taskIds, graceMs });
  }
  commands.push(...draft.others);
  if (draft.starts.length > 0) commands.push({ type: 'start', tasks: draft.starts });
  if (draft.dropped.size > 0) commands.push({ type: 'dropJobs', jobIds: [...draft.dropped] });
  if (draft.reports.length > 0) commands.push({ type: 'report', reports: draft.reports });
  if (draft.toJournal.length > 0 || draft.toForget.length > 0) {
    commands.push({ type: 'journal', ends: draft.toJournal, settled: draft.toForget });
  }
  return commands;
}

/** A task's end, kept until it is settled and told now. */
export function end(draft: Draft, task: LiveTask, report: EndReport): void {
  draft.live.delete(task.assignment.taskId);
  draft.ended.set(report.taskId, {
    report,
    endedAt: draft.now,
    toldAt: draft.now,
    journalled: false,
  });
  draft.reports.push(report);
}

/** The end of a task that never got to its host, or that its host knows no result of. */
export function endWithout(draft: Draft, task: LiveTask, outcome: FailedOutcome, error: ErrorBody): void {
  end(draft, task, {
    type: 'failed',
    taskId: task.assignment.taskId,
    epoch: task.assignment.epoch,
    outcome,
    error,
    exitCode: null,
    usage: null,
    output: '',
  });
}

/** Ends a task by wish: at once when it waits, else its host is told to and answers. The first reason stands. */
export function stop(draft: Draft, task: LiveTask, outcome: FailedOutcome, error: ErrorBody): void {
  if (task.phase === 'waiting') {
    endWithout(draft, task, outcome, error);
    return;
  }
  if (task.verdict) return;
  const { taskId } = task.assignment;
  draft.live.set(taskId, { ...task, verdict: { outcome, error } });
  draft.stops.push({ taskId, graceMs: draft.config.stopGraceMs });
}

/** What a host says of one task; of tasks that are over it is no news. */
export function heard(draft: Draft, report: HostReport): void {
  const task = draft.live.get(report.taskId);
  if (!task) return;
  const { taskId, epoch } = task.assignment;
  switch (report.type) {
    case 'started': {
      const { host, ports } = report;
      const reachable = host !== undefined && ports !== undefined ? { host, ports } : null;
      const started: LiveTask = { ...task, phase: 'running', startedAt: draft.now, reachable };
      draft.live.set(taskId, started);
      draft.reports.push(startedReport(started));
      return;
    }
    case 'progress':
      draft.reports.push({ type: 'progress', taskId, epoch, fraction: report.fraction });
      return;
    case 'done':
      end(draft, task, { ...report, epoch });
      return;
    case 'failed':
      end(draft, task, { ...report, ...task.verdict, epoch });
      return;
  }
}

export function startedReport({ assignment, reachable }: LiveTask): TaskReport {
  const { taskId, epoch } = assignment;
  return reachable
    ? { type: 'started', taskId, epoch, host: reachable.host, ports: [...reachable.ports] }
    : { type: 'started', taskId, epoch };
}
