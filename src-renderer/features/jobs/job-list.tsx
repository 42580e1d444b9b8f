import { useMemo, useState, type MouseEvent } from 'react';
import { Button, Select, TextInput } from '@mantine/core';
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
import { formatDuration, plural } from '../../format/format.ts';
import { readKey } from '../../queries/queries.ts';
import { useRowWindow, windowRows, type WindowRow } from '../../queries/row-window.ts';
import { useLive } from '../../stores/live.ts';
import { JobStatusMark } from './job-status.tsx';
import {
  jobStatusWords,
  kindWords,
  partitionsText,
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
            rowKey={keyOf}
            minWidth={800}
            maxHeight="max(360px, calc(100vh - 260px))"
            onRowClick={openRow}
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
  return { rows: shown?.rows ?? null, isFiltered: shown?.isFiltered ?? false, error, refetch, onRange };
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

type Row = WindowRow<JobSummary>;

// Always the same functions: a row is drawn anew only when it is another one.
function keyOf(row: Row): string {
  return typeof row === 'number' ? String(row) : row.id;
}
function openRow(row: Row): void {
  if (typeof row !== 'number') navigate(hrefTo('jobs', row.id));
}

/** Of one that is known. */
function cell(draw: (job: JobSummary) => React.ReactNode): (row: Row) => React.ReactNode {
  return (row) => (typeof row === 'number' ? null : draw(row));
}
/** Of one that is known, as it is now: a moment changes the cells that show it, not the table. */
function liveCell(draw: (job: JobSummary) => React.ReactNode): (row: Row) => React.ReactNode {
  return cell((job) => <Live job={job} draw={draw} />);
}
function Live({
  job,
  draw,
}: {
  readonly job: JobSummary;
  readonly draw: (job: JobSummary) => React.ReactNode;
}) {
  return draw(
    withLive(
      job,
      useLive((state) => state.jobs.get(job.id)),
    ),
  );
}

const columns: readonly Column<Row>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(130px, 2.5fr)',
    cell: cell(({ id, name }) => (
      <a className={classes['link']} href={hrefTo('jobs', id)} onClick={stopHere}>
        <Name>{name}</Name>
      </a>
    )),
  },
  {
    id: 'status',
    title: 'Status',
    width: '110px',
    cell: liveCell(({ status }) => <JobStatusMark status={status} />),
  },
  {
    id: 'progress',
    title: 'Progress',
    width: 'minmax(110px, 1.2fr)',
    cell: liveCell((job) => <ProgressCell job={job} />),
  },
  {
    id: 'partitions',
    title: 'Partitions',
    width: 'minmax(200px, 1.6fr)',
    cell: liveCell(({ partitions }) => partitionsText({ partitions: { ...partitions, running: 0 } })),
  },
  { id: 'kind', title: 'Kind', width: '110px', cell: cell(({ kind }) => kindWords[kind]) },
  {
    id: 'left',
    title: 'Time',
    width: '110px',
    cell: liveCell(({ remainingMs, startedAt, finishedAt }) => {
      if (startedAt !== null && finishedAt !== null) return timeText(finishedAt - startedAt);
      return remainingMs === null ? '' : `${formatDuration(remainingMs)} left`;
    }),
  },
  {
    id: 'created',
    title: 'Submitted',
    width: '110px',
    cell: cell(({ createdAt }) => <Ago at={createdAt} light />),
  },
];

/** The row would open it once more. */
function stopHere(event: MouseEvent): void {
  event.stopPropagation();
}

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
