import type { JobId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { jobStatus } from '../state/job-selectors.ts';
import type { JobRecord } from '../state/job-state.ts';
import type { ControllerState } from '../state/state.ts';

export function isUnfinished({ course }: JobRecord): boolean {
  return course.phase !== 'done' && course.phase !== 'failed' && course.phase !== 'cancelled';
}

/** The last eight, the newest first. */
function newest(jobs: readonly JobRecord[]): JobRecord[] {
  return jobs
    .toReversed()
    .sort((one, other) => other.definition.createdAt - one.definition.createdAt)
    .slice(0, 8);
}

/**
 * The job that a person means: its id, or a name that one unfinished job has, or else one job at all.
 * @throws CoveyError `job_not_found` naming those that it may have been, `job_invalid` for a name of several
 */
export function findJob(state: ControllerState, ref: string): JobRecord {
  const job = state.jobs.get(ref as JobId);
  if (job) return job;
  const named = [...state.jobs.values()].filter(({ definition }) => definition.name === ref);
  const unfinished = named.filter(isUnfinished);
  const meant = unfinished.length > 0 ? unfinished : named;
  const [only] = meant;
  if (only && meant.length === 1) return only;
  if (meant.length > 1) {
    const shown = newest(meant).map((one) => {
      const { id, createdAt } = one.definition;
      const at = new Date(createdAt).toISOString().slice(0, 19).replace('T', ' ');
      return { code: 'job_invalid', message: `${id} is ${jobStatus(one)}, submitted ${at} UTC` };
    });
    throw new CoveyError('job_invalid', `${meant.length} jobs are called "${ref}": give an id.`, {
      field: 'job',
      reasons: shown,
    });
  }
  const known = newest([...state.jobs.values()]).map(
    ({ definition }) => `${definition.id} (${definition.name})`,
  );
  throw new CoveyError(
    'job_not_found',
    known.length > 0
      ? `There is no job "${ref}". The newest are: ${known.join(', ')}.`
      : `There is no job "${ref}": none was submitted.`,
    { field: 'job' },
  );
}
