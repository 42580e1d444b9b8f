import { useEffect, useMemo, useState } from 'react';
import { Anchor, Button, Select, TextInput } from '@mantine/core';
import { IconChecklist, IconPlus, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import type { ApiAnswer } from '#shared/api/calls.ts';
import { jobStatusSchema, type JobView } from '#shared/domain/job.ts';
import type { CoveyError } from '#shared/errors.ts';
import { useApi } from '../../app/api-context.ts';
import { hrefTo, navigate } from '../../app/router.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Meter } from '../../components/meter.tsx';
import { Page, Section } from '../../components/page.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatCount, formatDuration, formatPercent, plural } from '../../format/format.ts';
import { useLive } from '../../stores/live.ts';
import { JobStatusMark } from './job-status.tsx';
import { jobStatusWords, kindWords, shareDone, timeText, unitsText, withLive } from './job-words.ts';
import classes from './jobs.module.css';

interface Filter {
  readonly text: string;
  readonly status: JobView['status'] | null;
  readonly kind: JobView['kind'] | null;
}
const noFilter: Filter = { text: '', status: null, kind: null };
const pageSize = 200;

/** All jobs, the newest first. */
export function JobList() {
  const [filter, setFilter] = useState(noFilter);
  const isFiltered = filter.text.trim() !== '' || filter.status !== null || filter.kind !== null;
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useJobs(filter.status);
  const live = useLive((state) => state.jobs);
  const jobs = useMemo(() => data?.pages.flatMap((page) => page.jobs) ?? [], [data]);
  const rows = useMemo(() => {
    const text = filter.text.trim().toLowerCase();
    return jobs
      .filter(({ name, id, kind }) => {
        const isKind = filter.kind === null || kind === filter.kind;
        return isKind && (name.toLowerCase().includes(text) || id.startsWith(text));
      })
      .map((job) => withLive(job, live.get(job.id)));
  }, [jobs, filter, live]);
  // A name or kind may be anywhere: the rest is looked through too.
  const looksOn = (filter.text.trim() !== '' || filter.kind !== null) && hasNextPage;
  useEffect(() => {
    if (looksOn && !isFetchingNextPage && error === null) void fetchNextPage();
  }, [looksOn, isFetchingNextPage, error, fetchNextPage]);

  const start = (
    <Button component="a" href={hrefTo('jobs', 'new')} leftSection={<IconPlus size={16} aria-hidden />}>
      New job
    </Button>
  );
  return (
    <Page
      title="Jobs"
      lead="Work that is divided over the machines: kernels, programs, models over many records."
      actions={start}
    >
      {error !== null && data === undefined ? (
        <ErrorState title="The jobs are not known" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <LoadingRows />
      ) : jobs.length === 0 && !isFiltered ? (
        <Section title="All jobs">
          <EmptyState icon={IconChecklist} title="No job was submitted yet" action={start}>
            A job sums up a file of numbers, runs a program for each of many inputs, or asks a model about
            each line of a file. In a terminal: <code>covey run</code>.
          </EmptyState>
        </Section>
      ) : (
        <Section
          title="All jobs"
          flush
          lead={`${plural(rows.length, 'job')}${hasNextPage ? ' so far' : ''}, the newest first`}
        >
          <Filters filter={filter} onChange={setFilter} />
          <DataTable
            label="Jobs"
            rows={rows}
            columns={columns}
            rowKey={({ id }) => id}
            minWidth={900}
            maxHeight="max(360px, calc(100vh - 260px))"
            onRowClick={({ id }) => navigate(hrefTo('jobs', id))}
            onEnd={() => {
              if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
            }}
            empty={
              looksOn ? (
                <LoadingRows />
              ) : (
                <EmptyState
                  icon={IconSearch}
                  title="No job fits the filter"
                  action={
                    <Button variant="default" onClick={() => setFilter(noFilter)}>
                      Clear the filter
                    </Button>
                  }
                >
                  {formatCount(jobs.length)} were looked at.
                </EmptyState>
              )
            }
          />
        </Section>
      )}
    </Page>
  );
}

/** Jobs page by page; the key begins as that of every list, so that events make it out of date. */
function useJobs(status: JobView['status'] | null) {
  const api = useApi();
  return useInfiniteQuery<
    ApiAnswer<'jobs'>,
    CoveyError,
    { pages: ApiAnswer<'jobs'>[] },
    readonly unknown[],
    string | null
  >({
    queryKey: ['jobs', 'pages', status],
    initialPageParam: null,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) =>
      api.call('jobs', {
        signal,
        query: {
          limit: String(pageSize),
          ...(status === null ? {} : { status }),
          ...(pageParam === null ? {} : { before: pageParam }),
        },
      }),
    getNextPageParam: ({ jobs, more }) => (more ? (jobs.at(-1)?.id ?? null) : null),
  });
}

function Filters({
  filter,
  onChange,
}: {
  readonly filter: Filter;
  readonly onChange: (filter: Filter) => void;
}) {
  return (
    <div className={classes['filters']} role="search" aria-label="Filter">
      <TextInput
        aria-label="Name of the job"
        placeholder="Name of the job"
        leftSection={<IconSearch size={16} aria-hidden />}
        maxLength={128}
        value={filter.text}
        onChange={(event) => onChange({ ...filter, text: event.currentTarget.value })}
      />
      <Select
        aria-label="Status"
        placeholder="Any status"
        clearable
        clearButtonProps={{ 'aria-label': 'Any status' }}
        data={jobStatusSchema.options.map((value) => ({ value, label: jobStatusWords[value][0] }))}
        value={filter.status}
        onChange={(status) => onChange({ ...filter, status })}
      />
      <Select
        aria-label="Kind"
        placeholder="Any kind"
        clearable
        clearButtonProps={{ 'aria-label': 'Any kind' }}
        data={Object.entries(kindWords).map(([value, label]) => ({ value: value as JobView['kind'], label }))}
        value={filter.kind}
        onChange={(kind) => onChange({ ...filter, kind })}
      />
    </div>
  );
}

const columns: readonly Column<JobView>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(180px, 2.5fr)',
    cell: ({ id, name }) => (
      <Anchor inherit href={hrefTo('jobs', id)} onClick={(event) => event.stopPropagation()}>
        <Name>{name}</Name>
      </Anchor>
    ),
  },
  { id: 'kind', title: 'Kind', width: '100px', cell: ({ kind }) => kindWords[kind] },
  { id: 'status', title: 'Status', width: '120px', cell: ({ status }) => <JobStatusMark status={status} /> },
  {
    id: 'progress',
    title: 'Progress',
    width: 'minmax(140px, 1.2fr)',
    cell: (job) => <ProgressCell job={job} />,
  },
  {
    id: 'partitions',
    title: 'Partitions',
    width: 'minmax(200px, 1.6fr)',
    cell: ({ partitions: { done, total, failed } }) =>
      `${formatCount(done)} of ${formatCount(total)} done${failed > 0 ? `, ${formatCount(failed)} failed` : ''}`,
  },
  {
    id: 'left',
    title: 'Time',
    width: '110px',
    cell: ({ remainingMs, startedAt, finishedAt }) => {
      if (startedAt !== null && finishedAt !== null) return timeText(finishedAt - startedAt);
      return remainingMs === null ? '' : `${formatDuration(remainingMs)} left`;
    },
  },
  { id: 'created', title: 'Submitted', width: '110px', cell: ({ createdAt }) => <Ago at={createdAt} /> },
];

function ProgressCell({ job }: { readonly job: JobView }) {
  const share = shareDone(job);
  if (share === null) return <>counting</>;
  return (
    <span className={classes['progressCell']}>
      <Meter
        label="Progress"
        used={share}
        total={1}
        text={unitsText(job)}
        tone={job.status === 'failed' ? 'bad' : 'normal'}
      />
      <span className="number">{formatPercent(share * 100)}</span>
    </span>
  );
}
