import { useMemo, useState } from 'react';
import { Anchor, Button, Select, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconChecklist, IconPlus, IconSearch } from '@tabler/icons-react';
import { jobStatusSchema, type JobSummary } from '#shared/domain/job.ts';
import { useApi } from '../../app/api-context.ts';
import { hrefTo, navigate } from '../../app/router.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Meter } from '../../components/meter.tsx';
import { Page, Section } from '../../components/page.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatCount, formatDuration, plural } from '../../format/format.ts';
import { readKey } from '../../queries/queries.ts';
import { useRowWindow, windowRows, type WindowRow } from '../../queries/row-window.ts';
import { useLive } from '../../stores/live.ts';
import { JobStatusMark } from './job-status.tsx';
import {
  jobStatusWords,
  kindWords,
  percentText,
  shareDone,
  timeText,
  unitsText,
  withLive,
} from './job-words.ts';
import classes from './jobs.module.css';

interface Filter {
  readonly text: string;
  readonly status: JobSummary['status'] | null;
  readonly kind: JobSummary['kind'] | null;
}
const noFilter: Filter = { text: '', status: null, kind: null };
/** After the last key. */
const typingMs = 200;

/** All jobs, the newest first: only those in sight are asked for, however many there are. */
export function JobList() {
  const [filter, setFilter] = useState(noFilter);
  const [asked] = useDebouncedValue(filter, typingMs);
  const { rows, isFiltered, error, refetch, onRange } = useJobs(asked);
  const start = (
    <Button component="a" href={hrefTo('jobs', 'new')} leftSection={<IconPlus size={16} aria-hidden />}>
      New job
    </Button>
  );
  return (
    <Page
      title="Jobs"
      lead="Work that is divided over the machines: calculations, programs, models over many records."
      actions={start}
    >
      {error !== null && rows === null ? (
        <ErrorState title="The jobs are not known" error={error} onRetry={refetch} />
      ) : rows === null ? (
        <LoadingRows />
      ) : rows.length === 0 && !isFiltered ? (
        <Section title="All jobs">
          <EmptyState icon={IconChecklist} title="No job was submitted yet" action={start}>
            A job sums up a file of numbers, runs a program for each of many inputs, or asks a model about
            each line of a file. In a terminal: <code>covey run</code>.
          </EmptyState>
        </Section>
      ) : (
        <Section title="All jobs" flush lead={`${plural(rows.length, 'job')}, the newest first`}>
          <Filters filter={filter} onChange={setFilter} />
          <DataTable
            label="Jobs"
            rows={rows}
            columns={columns}
            rowKey={(row) => (typeof row === 'number' ? String(row) : row.id)}
            minWidth={900}
            maxHeight="max(360px, calc(100vh - 260px))"
            onRowClick={(row) => {
              if (typeof row !== 'number') navigate(hrefTo('jobs', row.id));
            }}
            onRange={onRange}
            empty={
              <EmptyState
                icon={IconSearch}
                title="No job fits the filter"
                action={
                  <Button variant="default" onClick={() => setFilter(noFilter)}>
                    Clear the filter
                  </Button>
                }
              >
                Names, and the beginnings of ids, are looked through.
              </EmptyState>
            }
          />
        </Section>
      )}
    </Page>
  );
}

/** What fits the filter; until that is known, what fitted the one before. `rows` null: nothing is known yet. */
function useJobs({ text, status, kind }: Filter) {
  const api = useApi();
  const wanted = text.trim();
  const isFiltered = wanted !== '' || status !== null || kind !== null;
  const { pages, error, refetch, onRange } = useRowWindow((page) => {
    const query = {
      ...page,
      ...(wanted === '' ? {} : { text: wanted }),
      ...(status === null ? {} : { status }),
      ...(kind === null ? {} : { kind }),
    };
    return {
      queryKey: readKey('jobs', { query }),
      queryFn: ({ signal }) => api.call('jobs', { query, signal }),
    };
  });
  const known = useMemo(() => {
    const total = pages[0]?.answer.total;
    if (total === undefined) return null;
    const parts = pages.map(({ from, answer }) => ({ from, rows: answer.jobs }));
    return { rows: windowRows(total, parts), isFiltered };
  }, [pages, isFiltered]);
  const [shown, setShown] = useState(known);
  if (known !== null && known !== shown) setShown(known);
  const live = useLive((state) => state.jobs);
  const rows = useMemo(
    () => shown?.rows.map((row) => (typeof row === 'number' ? row : withLive(row, live.get(row.id)))) ?? null,
    [shown, live],
  );
  return { rows, isFiltered: shown?.isFiltered ?? false, error, refetch, onRange };
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
        data={Object.entries(kindWords).map(([value, label]) => ({
          value: value as JobSummary['kind'],
          label,
        }))}
        value={filter.kind}
        onChange={(kind) => onChange({ ...filter, kind })}
      />
    </div>
  );
}

/** Of one that is known. */
function cell(draw: (job: JobSummary) => React.ReactNode): (row: WindowRow<JobSummary>) => React.ReactNode {
  return (row) => (typeof row === 'number' ? null : draw(row));
}

const columns: readonly Column<WindowRow<JobSummary>>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(150px, 2.5fr)',
    cell: cell(({ id, name }) => (
      <Anchor inherit href={hrefTo('jobs', id)} onClick={(event) => event.stopPropagation()}>
        <Name>{name}</Name>
      </Anchor>
    )),
  },
  {
    id: 'status',
    title: 'Status',
    width: '120px',
    cell: cell(({ status }) => <JobStatusMark status={status} />),
  },
  {
    id: 'progress',
    title: 'Progress',
    width: 'minmax(140px, 1.2fr)',
    cell: cell((job) => <ProgressCell job={job} />),
  },
  {
    id: 'partitions',
    title: 'Partitions',
    width: 'minmax(200px, 1.6fr)',
    cell: cell(
      ({ partitions: { done, total, failed } }) =>
        `${formatCount(done)} of ${formatCount(total)} done${failed > 0 ? `, ${formatCount(failed)} failed` : ''}`,
    ),
  },
  { id: 'kind', title: 'Kind', width: '110px', cell: cell(({ kind }) => kindWords[kind]) },
  {
    id: 'left',
    title: 'Time',
    width: '110px',
    cell: cell(({ remainingMs, startedAt, finishedAt }) => {
      if (startedAt !== null && finishedAt !== null) return timeText(finishedAt - startedAt);
      return remainingMs === null ? '' : `${formatDuration(remainingMs)} left`;
    }),
  },
  {
    id: 'created',
    title: 'Submitted',
    width: '110px',
    cell: cell(({ createdAt }) => <Ago at={createdAt} />),
  },
];

function ProgressCell({ job }: { readonly job: JobSummary }) {
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
      <span className="number">{percentText(job)}</span>
    </span>
  );
}
