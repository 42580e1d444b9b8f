import type { ControllerEvent } from '../../state/events.ts';
import { openJobs } from '../../state/job-selectors.ts';
import type { JobRecord } from '../../state/job-state.ts';
import type { ControllerState } from '../../state/state.ts';
import { dispatch } from './dispatch.ts';
import { isComplete } from './gang.ts';
import { endedTasks, jobsWithoutProgram, releasedShares, type ReviewInput } from './review.ts';
import { roomsOf } from './room.ts';
import { speculate } from './speculate.ts';

export interface PlanJobsInput extends ReviewInput {
  /** Look at everything that only time changes: about once a second. */
  readonly review: boolean;
}

/**
 * What follows for jobs. Costs nothing while no job is open.
 * 1. Attempts that will not be reported are ended, shares of machines that are gone are given to the others, and the
 *    oldest finished jobs go when there are too many. A job whose program nobody has fails. All that is decided anew on the state that has it.
 * 2. A gang whose ranks are all there goes.
 * 3. Waiting work goes to machines with room for it; what is left of that, to second copies of stragglers.
 */
export function planJobs(state: ControllerState, input: PlanJobsInput): ControllerEvent[] {
  const { now, since, policy } = input;
  const jobs = openJobs(state.jobs);
  // 1.
  if (input.review) {
    const events = [
      ...releasedShares(state, jobs, input),
      ...jobsWithoutProgram(state, jobs, input),
      ...oldJobs(state, input),
    ];
    const ends = endedTasks(state, jobs, input);
    if (ends.length > 0) events.push({ type: 'tasks-ended', at: now, ends });
    if (events.length > 0) return events;
  }
  if (jobs.length === 0) return [];
  // 2.
  const events: ControllerEvent[] = [];
  for (const job of jobs) {
    if (!isComplete(job)) continue;
    const start = job.course.gang?.start ?? 0;
    events.push({ type: 'gang-started', at: now, jobId: job.definition.id, start });
  }
  // 3.
  const rooms = roomsOf(state, jobs);
  const assignments = dispatch(jobs, rooms, since, policy);
  if (input.review) assignments.push(...speculate(jobs, rooms, now, policy));
  if (assignments.length > 0) events.push({ type: 'tasks-assigned', at: now, assignments });
  return events;
}

/**
 * Those that are over go when there are too many of them: first those that have no result (cancelled, or nothing of them
 * is done), then those that ended first, as one that ran for days was submitted before all others. Nobody waits for one
 * that ended a while ago.
 */
function oldJobs(state: ControllerState, { now, since, policy }: PlanJobsInput): ControllerEvent[] {
  const over: JobRecord[] = [];
  // What never began is mostly not among them, and takes nothing.
  let partitions = 0;
  for (const job of state.jobs.values()) {
    if (job.course.finishedAt === null) continue;
    over.push(job);
    partitions += job.partitions.length;
  }
  let jobs = over.length;
  const isTooMuch = (): boolean => jobs > policy.keptJobs || partitions > policy.keptPartitions;
  if (!isTooMuch()) return [];
  const old = over.filter((job) => since(finishedAt(job)) >= policy.keptMs);
  old.sort((a, b) => Number(hasResults(a)) - Number(hasResults(b)) || finishedAt(a) - finishedAt(b));
  const events: ControllerEvent[] = [];
  for (const job of old) {
    if (!isTooMuch()) break;
    // Without it there are as many partitions as with it.
    if (jobs <= policy.keptJobs && job.partitions.length === 0) continue;
    events.push({ type: 'job-removed', at: now, jobId: job.definition.id, cause: 'old' });
    jobs -= 1;
    partitions -= job.partitions.length;
  }
  return events;
}

function finishedAt({ course }: JobRecord): number {
  return course.finishedAt ?? Infinity;
}

function hasResults({ course, tally }: JobRecord): boolean {
  return course.result !== null && tally.counts.done > 0;
}
