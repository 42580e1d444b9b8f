import type { JobStatus } from '#shared/domain/job.ts';
import { StatusMark } from '../../components/status.tsx';
import { jobStatusWords } from './job-words.ts';

export function JobStatusMark({ status }: { readonly status: JobStatus }) {
  const [word, tone] = jobStatusWords[status];
  return <StatusMark tone={tone}>{word}</StatusMark>;
}
