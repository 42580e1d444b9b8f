import { Progress, Text } from '@mantine/core';
import type { JobSummary } from '#shared/domain/job.ts';
import { hrefTo } from '../../app/router.ts';
import { Section } from '../../components/page.tsx';
import { Name } from '../../components/text.tsx';
import { formatCount, formatDuration, plural } from '../../format/format.ts';
import { useRead } from '../../queries/queries.ts';
import { useLive } from '../../stores/live.ts';
import { JobStatusMark } from '../jobs/job-status.tsx';
import { kindWords, shareDone, unitsText, withLive } from '../jobs/job-words.ts';

const shown = 6;
const underWay = { query: { status: 'preparing,running,cancelling', limit: String(shown) } };
const waiting = { query: { status: 'queued', limit: String(shown) } };

/** How many jobs are under way; null: not known yet. */
export function useJobsUnderWay(): number | null {
  return useRead('jobs', underWay).data?.total ?? null;
}

/** Jobs that are not finished: those under way first. */
export function RunningJobs({ hasMachines }: { readonly hasMachines: boolean }) {
  const running = useRead('jobs', underWay).data;
  const queued = useRead('jobs', waiting).data;
  if (running === undefined || queued === undefined) return null;
  const jobs = [...running.jobs, ...queued.jobs].slice(0, shown);
  const total = running.total + queued.total;
  return (
    <Section
      title="Jobs that run"
      flush
      actions={
        hasMachines ? (
          <a className="section-link" href={hrefTo('jobs', 'new')}>
            New job
          </a>
        ) : null
      }
    >
      {total === 0 ? (
        <Text size="sm" c="dimmed" className="section-inset">
          No job runs. A job divides work over the machines: a file of numbers, a program with many inputs, a
          list of questions for a model.
        </Text>
      ) : (
        <>
          <ul className="rows">
            {jobs.map((job) => (
              <JobRow key={job.id} job={job} />
            ))}
          </ul>
          <a className="rows-more" href={hrefTo('jobs')}>
            {total <= shown
              ? 'All jobs'
              : `All jobs: ${formatCount(running.total)} under way, ${formatCount(queued.total)} waiting`}
          </a>
        </>
      )}
    </Section>
  );
}

function JobRow({ job: known }: { readonly job: JobSummary }) {
  const job = withLive(
    known,
    useLive((state) => state.jobs.get(known.id)),
  );
  const share = shareDone(job);
  const { failed } = job.partitions;
  const details = [kindWords[job.kind], unitsText(job)];
  if (failed > 0) details.push(`${plural(failed, 'failure')}`);
  if (job.remainingMs !== null) details.push(`about ${formatDuration(job.remainingMs)} left`);
  return (
    <li>
      <div className="row-main">
        <a href={hrefTo('jobs', job.id)} className="row-title">
          <Name>{job.name}</Name>
        </a>
        <Text size="sm" c="dimmed" className="row-detail">
          {details.join(' · ')}
        </Text>
      </div>
      <div className="row-side">
        <JobStatusMark status={job.status} />
        <div className="row-progress">
          <Progress
            value={(share ?? 1) * 100}
            animated={share === null}
            size="sm"
            color={failed > 0 ? 'red' : 'covey'}
            aria-label="Progress"
          />
        </div>
      </div>
    </li>
  );
}
