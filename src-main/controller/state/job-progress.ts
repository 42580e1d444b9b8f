import type { JobView } from '#shared/domain/job.ts';
import { partitionCount, unitsOf } from './job-shares.ts';
import { jobStatus, liveTasks } from './job-selectors.ts';
import { preparationIndex, type JobRecord } from './job-state.ts';

type Progress = Pick<JobView, 'status' | 'units' | 'partitions' | 'unitsPerS' | 'remainingMs'>;

/** How far a job is, without a look at the machines. @param now epoch ms, for what is running */
export function jobProgress(job: JobRecord, now: number): Progress {
  const { definition, course, tally } = job;
  const doneUnits = tally.doneUnits + unitsUnderWay(job);
  const speed = jobSpeed(job, doneUnits, now);
  const left = course.total === null ? null : Math.max(0, course.total - doneUnits);
  const running = course.phase === 'running';
  return {
    status: jobStatus(job),
    units: { unit: definition.unit, total: course.total, done: doneUnits },
    partitions: partitionCounts(job),
    unitsPerS: speed,
    remainingMs: running && left !== null && speed !== null && speed > 0 ? (left / speed) * 1_000 : null,
  };
}

/** As `partitionStatus` calls them. */
function partitionCounts(job: JobRecord): JobView['partitions'] {
  const { counts } = job.tally;
  const { done, failed } = counts;
  const total = partitionCount(job);
  // What had no result when the job ended will not get one.
  if (job.course.finishedAt !== null) {
    return { total, waiting: 0, running: 0, done, failed, cancelled: total - done - failed };
  }
  const running = counts.active + counts.fetching;
  return { total, waiting: counts.waiting, running, done, failed, cancelled: counts.cancelled };
}

/** What tasks that run have done of their partitions, by their own word. */
function unitsUnderWay(job: JobRecord): number {
  let units = 0;
  for (const { partition, task } of liveTasks(job)) {
    if (partition.index !== preparationIndex && !task.speculative)
      units += task.progress * unitsOf(partition);
  }
  return units;
}

/** Units a second over its whole time: what machines did in turn or at once does not matter. */
function jobSpeed({ course }: JobRecord, doneUnits: number, now: number): number | null {
  if (course.startedAt === null || doneUnits === 0) return null;
  const ms = (course.finishedAt ?? now) - course.startedAt;
  return ms > 0 ? (doneUnits / ms) * 1_000 : null;
}
