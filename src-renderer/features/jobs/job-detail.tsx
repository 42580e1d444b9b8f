import { Alert, Anchor, Group, Progress, Stack, Text } from '@mantine/core';
import { IconArrowLeft, IconChecklist, IconInfoCircle } from '@tabler/icons-react';
import type { JobView } from '#shared/domain/job.ts';
import { hrefTo } from '../../app/router.ts';
import { NotThere } from '../../components/not-there.tsx';
import { Page, Section } from '../../components/page.tsx';
import { ErrorState, LoadingState } from '../../components/states.tsx';
import { Ago } from '../../components/text.tsx';
import { formatBytes, formatDateTime, formatDuration } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useFollow, useRead } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import { useLive } from '../../stores/live.ts';
import { DistributionSection } from './distribution-section.tsx';
import { JobActions } from './job-actions.tsx';
import { JobStatusMark } from './job-status.tsx';
import {
  isFinished,
  kindWords,
  partitionsText,
  partWord,
  shareDone,
  speedText,
  timeText,
  unitsText,
  withLive,
} from './job-words.ts';
import classes from './jobs.module.css';
import { Partitions } from './partitions.tsx';
import { ProgramsForbidden } from './programs-forbidden.tsx';
import { JobResultSection } from './result.tsx';
import { Shares } from './shares.tsx';

const followed = ['job', 'jobPartitions', 'tasks'] as const;

/** Everything that is known of one job. */
export function JobDetail({ id }: { readonly id: string }) {
  const { data, error, refetch } = useRead('job', { params: { job: id } });
  const live = useLive(({ jobs }) => jobs.get(data?.id ?? id));
  useFollow(live, followed);
  if (error?.code === 'job_not_found') return <NoSuchJob />;
  if (data === undefined) {
    return error === null ? (
      <LoadingState what="the job" />
    ) : (
      <ErrorState title="The job is not known" error={error} onRetry={() => void refetch()} />
    );
  }
  const job = withLive(data, live);
  return (
    <>
      <Anchor href={hrefTo('jobs')} className={classes['back'] ?? ''}>
        <IconArrowLeft size={16} aria-hidden />
        All jobs
      </Anchor>
      <Page
        title={plainText(job.name)}
        lead={
          <Group gap="sm">
            <JobStatusMark status={job.status} />
            <span>{kindWords[job.kind]}</span>
            <span>
              submitted <Ago at={job.createdAt} />
            </span>
          </Group>
        }
        actions={<JobActions job={job} />}
      >
        <Stack gap="md">
          {job.error !== null && <ErrorState title={errorTitle(job)} error={job.error} />}
          {job.notes.length > 0 && (
            <Alert color="gray" icon={<IconInfoCircle size={18} aria-hidden />} title="To know">
              {job.notes.map((note) => (
                <Text key={note} size="sm" className={classes['anywhere'] ?? ''}>
                  {plainText(note)
                    .split('`')
                    .map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>))}
                </Text>
              ))}
            </Alert>
          )}
          {!isFinished(job) && <ProgramsForbidden kind={job.kind} />}
          <ProgressSection job={job} />
          <JobResultSection job={job} />
          <Shares job={job} />
          {!isFinished(job) && job.kind !== 'gang' && <DistributionSection job={job} />}
          <Partitions job={job} />
        </Stack>
      </Page>
    </>
  );
}

function errorTitle({ status, kind }: JobView): string {
  if (status === 'failed') return 'It failed';
  const part = `A ${partWord(kind)} failed`;
  return status === 'cancelled' ? `${part} before it was cancelled` : `${part}, the rest goes on`;
}

function ProgressSection({ job }: { readonly job: JobView }) {
  const now = useNow();
  const stats = useRead('jobStats', { params: { job: job.id } }).data;
  const share = shareDone(job);
  const runs = !isFinished(job);
  const spentMs = job.startedAt === null ? null : (job.finishedAt ?? now) - job.startedAt;
  const facts: [string, string][] = [];
  facts.push([job.kind === 'gang' ? 'Ranks' : 'Partitions', partitionsText(job)]);
  if (spentMs !== null)
    facts.push([runs ? 'Runs for' : 'Ran for', runs ? formatDuration(spentMs) : timeText(spentMs)]);
  if (runs && job.remainingMs !== null) facts.push(['Left', `about ${formatDuration(job.remainingMs)}`]);
  if (job.unitsPerS !== null) facts.push(['Speed', speedText(job.unitsPerS, job.units.unit)]);
  if (job.finishedAt !== null) facts.push(['Ended', formatDateTime(job.finishedAt)]);
  if (!runs && stats !== undefined) {
    const { partitionMs, cpuMs, peakBytes } = stats;
    if (partitionMs !== null) {
      facts.push([
        `A ${partWord(job.kind)} took`,
        `${timeText(partitionMs.p50)} typically, ${timeText(partitionMs.max)} at most`,
      ]);
    }
    if (cpuMs !== null) facts.push(['Processor time', timeText(cpuMs)]);
    if (peakBytes !== null) facts.push(['Most memory of one', formatBytes(peakBytes)]);
  }
  return (
    <Section title="Progress">
      <Progress
        value={(share ?? 1) * 100}
        animated={share === null && runs}
        color={job.status === 'failed' ? 'red' : 'covey'}
        aria-label="Progress of the job"
      />
      <Text size="sm" mt={6} mb="sm" className="number">
        {unitsText(job)}
      </Text>
      <dl className={classes['figures']}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="number">{value}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

function NoSuchJob() {
  return <NotThere page="jobs" of="Jobs" icon={IconChecklist} title="There is no such job" all="All jobs" />;
}
