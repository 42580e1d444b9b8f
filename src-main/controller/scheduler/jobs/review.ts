import type { NodeId } from '#shared/lib/ids.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { ControllerEvent } from '../../state/events.ts';
import type { TaskEnd } from '../../state/job-events.ts';
import { liveTasks } from '../../state/job-selectors.ts';
import type { JobRecord, TaskRecord } from '../../state/job-state.ts';
import type { ControllerState, NodeRecord } from '../../state/state.ts';
import type { Since } from './elapsed.ts';
import { nodeName } from '../../state/selectors.ts';
import { whyNot } from './fit.ts';
import type { JobPolicy } from './job-policy.ts';

export interface ReviewInput {
  readonly now: number;
  readonly since: Since;
  readonly policy: JobPolicy;
  /** What runs on a machine whose owner wants it back may go on for so long. */
  readonly giveWayMs: number;
}

type Verdict = Pick<TaskEnd, 'outcome' | 'error' | 'notBeforeAt'>;

/** Attempts that nobody will report the end of, or not in time. Looks at every one, so only about once a second. */
export function endedTasks(
  state: ControllerState,
  jobs: readonly JobRecord[],
  input: ReviewInput,
): TaskEnd[] {
  const ends: TaskEnd[] = [];
  for (const job of jobs) {
    for (const { partition, task } of liveTasks(job)) {
      const verdict = verdictOfNode(state, job, task, input) ?? verdictOfTime(state, job, task, input);
      if (!verdict) continue;
      const { index } = partition;
      ends.push({ jobId: job.definition.id, index, epoch: task.epoch, taskId: task.id, ...verdict });
    }
  }
  return ends;
}

/**
 * 1. Its machine is no member any more, has said goodbye, is lost, or has had no session for `taskLossMs`; after
 *    a start of this controller all get `returnMs`. `exclusive` jobs wait until the lease is over as well.
 * 2. Its machine drains or gives way: the deadline of that has passed.
 * 3. Its machine takes no new work and has not begun this: it goes elsewhere, which counts as nothing.
 */
function verdictOfNode(
  state: ControllerState,
  job: JobRecord,
  task: TaskRecord,
  { now, since, policy, giveWayMs }: ReviewInput,
): Verdict | null {
  const node = state.nodes.get(task.nodeId);
  // 1.
  if (!node || isGone(state, node, since, policy)) {
    const name = node?.durable.name ?? `machine ${task.nodeId.slice(0, 12)}`;
    const lastAt = node ? now - since(node.live.heardAt) : now;
    return {
      outcome: 'lost',
      error: { code: 'task_lost', message: `${name} ${node ? 'does not answer' : 'was removed'}.` },
      notBeforeAt: job.definition.exclusive ? lastAt + policy.taskLeaseMs : null,
    };
  }
  const { drain, name, pausedAt } = node.durable;
  const { heldBackSince, session } = node.live;
  if (session === null) return null;
  // 2.
  const { exclusive } = job.definition;
  const notBeforeAt = exclusive ? now + policy.taskLeaseMs : null;
  if (drain && now >= drain.deadlineAt) {
    return lost({ code: 'node_draining', message: `${name} was drained.` }, notBeforeAt);
  }
  if (heldBackSince !== null && since(heldBackSince) >= giveWayMs) {
    return lost({ code: 'node_gave_way', message: `${name} gave way to its owner.` }, notBeforeAt);
  }
  // 3.
  // It may be beginning just now: a second copy must not be.
  if (exclusive) return null;
  const unwilling = drain !== null || heldBackSince !== null || pausedAt !== null;
  if (unwilling && task.startedAt === null && since(task.assignedAt) >= 1_000) {
    const error: ErrorBody = { code: 'node_not_ready', message: `${name} takes no new work.` };
    return { outcome: 'cancelled', error, notBeforeAt: null };
  }
  return null;
}

function isGone(
  state: ControllerState,
  { durable, live }: NodeRecord,
  since: Since,
  policy: JobPolicy,
): boolean {
  if (live.session !== null) return false;
  if (live.lost || durable.saidGoodbye) return true;
  const endedAt = durable.lastContactAt ?? 0;
  if (endedAt >= state.startedAt) return since(endedAt) >= policy.taskLossMs;
  return since(state.startedAt) >= policy.returnMs;
}

/**
 * 1. Told to end, itself or its gang, and still there.
 * 2. Its worker, which ends it at its time limit, has not.
 * 3. A rank that has not come while the others wait.
 */
function verdictOfTime(
  state: ControllerState,
  job: JobRecord,
  task: TaskRecord,
  { now, since, policy }: ReviewInput,
): Verdict | null {
  const { course, definition } = job;
  const name = state.nodes.get(task.nodeId)?.durable.name ?? task.nodeId.slice(0, 12);
  // 1.
  const toldAt = course.ending?.at ?? course.gang?.stopping?.at ?? null;
  if (toldAt !== null && since(toldAt) >= policy.taskGraceMs) {
    const message = `${name} did not end it when told to.`;
    return lost({ code: 'task_lost', message }, definition.exclusive ? now + policy.taskLeaseMs : null);
  }
  // 2.
  const runsSince = course.gang ? course.gang.goAt : task.startedAt;
  if (runsSince !== null && since(runsSince) >= definition.timeoutMs + policy.taskGraceMs) {
    const message = `It took longer than ${Math.round(definition.timeoutMs / 1000)} s on ${name}.`;
    const notBeforeAt = definition.exclusive ? now + policy.taskLeaseMs : null;
    return { outcome: 'failed', error: { code: 'task_timeout', message }, notBeforeAt };
  }
  // 3.
  if (course.gang && course.gang.goAt === null && task.reach === null && !course.gang.stopping) {
    if (since(task.assignedAt) >= policy.gangStartMs) {
      const message = `It was not ready on ${name} within ${policy.gangStartMs / 1000} s.`;
      return lost({ code: 'gang_incomplete', message });
    }
  }
  return null;
}

function lost(error: ErrorBody, notBeforeAt: number | null = null): Verdict {
  return { outcome: 'lost', error, notBeforeAt };
}

/** manual: shares of machines that cannot work for the job now, unless they may be back in a moment. */
export function releasedShares(
  state: ControllerState,
  jobs: readonly JobRecord[],
  { now, since, policy }: ReviewInput,
): ControllerEvent[] {
  const events: ControllerEvent[] = [];
  for (const job of jobs) {
    const { course, tally, partitions } = job;
    if (course.distribution.mode !== 'manual' || course.ending) continue;
    const owners = new Set<NodeId | null>(tally.rest.map(({ owner }) => owner));
    for (const index of tally.again) owners.add(partitions[index]?.owner ?? null);
    for (const nodeId of owners) {
      if (nodeId === null) continue;
      const node = state.nodes.get(nodeId);
      const absent = node?.live.session === null;
      const released = !node || (absent ? isGone(state, node, since, policy) : whyNot(job, node) !== null);
      if (released) events.push({ type: 'share-released', at: now, jobId: job.definition.id, nodeId });
    }
  }
  return events;
}

/** Jobs whose program is on no machine that could take them: waiting would not bring it. */
export function jobsWithoutProgram(
  state: ControllerState,
  jobs: readonly JobRecord[],
  { now }: ReviewInput,
): ControllerEvent[] {
  const events: ControllerEvent[] = [];
  for (const job of jobs) {
    const { tally, course, definition } = job;
    if (course.ending || course.gang?.stopping || tally.counts.active + tally.counts.fetching > 0) continue;
    const lacking = [...tally.nodes].filter(([, { refused }]) => refused?.error.code === 'program_not_found');
    const [first] = lacking;
    if (!first || [...state.nodes.values()].some((node) => whyNot(job, node) === null)) continue;
    const names = lacking.map(([id]) => nodeName(state, id));
    const shown =
      names.length > 4 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} others` : names.join(', ');
    const error: ErrorBody = {
      code: 'program_not_found',
      message: (first[1].refused?.error.message ?? '').replace(/ here(?= |$)/, () => ` on ${shown}`),
    };
    events.push({ type: 'job-failed', at: now, jobId: definition.id, error });
  }
  return events;
}
