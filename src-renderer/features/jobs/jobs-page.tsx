import { usePlace } from '../../app/router.ts';
import { JobDetail } from './job-detail.tsx';
import { JobList } from './job-list.tsx';
import { NewJob } from './new-job.tsx';

/** `#/jobs`, `#/jobs/new` (`?from=ID` to begin with what another was), `#/jobs/ID`. */
export function JobsPage() {
  const { rest, query } = usePlace();
  const [wanted] = rest;
  if (wanted === undefined) return <JobList />;
  if (wanted === 'new') return <NewJob key={query.get('from')} from={query.get('from')} />;
  return <JobDetail key={wanted} id={wanted} />;
}
