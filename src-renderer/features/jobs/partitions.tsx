import { useMemo, useState } from 'react';
import { Button, Select } from '@mantine/core';
import { IconListSearch } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import type { ApiAnswer } from '#shared/api/calls.ts';
import {
  partitionStatusSchema,
  type JobView,
  type PartitionStatus,
  type PartitionView,
} from '#shared/domain/job.ts';
import type { CoveyError } from '#shared/errors.ts';
import { useApi } from '../../app/api-context.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Meter } from '../../components/meter.tsx';
import { Section } from '../../components/page.tsx';
import { EmptyState, ErrorState } from '../../components/states.tsx';
import { StatusMark } from '../../components/status.tsx';
import { Name } from '../../components/text.tsx';
import { formatAgo, formatCount, formatDuration, formatPercent, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { readKey } from '../../queries/queries.ts';
import { useRowWindow, windowRows, type WindowRow } from '../../queries/row-window.ts';
import { useNow } from '../../stores/clock.ts';
import { Attempts } from './attempts.tsx';
import { partitionStatusWords, partWord, sentence, timeText } from './job-words.ts';
import classes from './jobs.module.css';

type Row = WindowRow<PartitionView>;
const pageSize = 200;

/** Every partition: only those in sight are asked for, however many there are. */
export function Partitions({ job }: { readonly job: JobView }) {
  const [status, setStatus] = useState<PartitionStatus | null>(null);
  const [shown, setShown] = useState<number | null>(null);
  const part = partWord(job.kind);
  const title = `${sentence(part)}s`;
  const isCounted = job.kind === 'command' || job.kind === 'gang';
  const columns = useMemo(
    () => columnsOf(part, setShown).filter(({ id }) => id !== 'range' || !isCounted),
    [part, isCounted],
  );
  return (
    <Section
      title={title}
      flush
      lead={plural(job.partitions.total, part)}
      actions={
        <Select
          aria-label={`Status of ${part}s`}
          placeholder="Any status"
          clearable
          clearButtonProps={{ 'aria-label': 'Any status' }}
          w={170}
          size="xs"
          data={partitionStatusSchema.options.map((value) => ({
            value,
            label: partitionStatusWords[value][0],
          }))}
          value={status}
          onChange={setStatus}
        />
      }
    >
      {job.partitions.total === 0 ? (
        <EmptyState icon={IconListSearch} title="There is none yet">
          Partitions are cut off as soon as a machine can take some.
        </EmptyState>
      ) : status === null ? (
        <AllPartitions job={job} columns={columns} />
      ) : (
        <SomePartitions job={job} status={status} columns={columns} onClear={() => setStatus(null)} />
      )}
      {shown !== null && <Attempts jobId={job.id} part={part} index={shown} onClose={() => setShown(null)} />}
    </Section>
  );
}

interface TableProps {
  readonly job: JobView;
  readonly columns: readonly Column<Row>[];
}

function AllPartitions({ job, columns }: TableProps) {
  const api = useApi();
  const { total } = job.partitions;
  const { pages, error, refetch, onRange } = useRowWindow((query) => {
    const options = { params: { job: job.id }, query };
    return {
      queryKey: readKey('jobPartitions', options),
      queryFn: ({ signal }) => api.call('jobPartitions', { ...options, signal }),
    };
  });
  const rows = useMemo(
    () =>
      windowRows(
        total,
        pages.map(({ from, answer }) => ({ from, rows: answer.partitions })),
      ),
    [pages, total],
  );
  return (
    <>
      {error !== null && <ErrorState title="The partitions are not known" error={error} onRetry={refetch} />}
      <PartitionTable rows={rows} columns={columns} onRange={onRange} />
    </>
  );
}

function SomePartitions({
  job,
  status,
  columns,
  onClear,
}: TableProps & { readonly status: PartitionStatus; readonly onClear: () => void }) {
  const api = useApi();
  const { data, error, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery<
    ApiAnswer<'jobPartitions'>,
    CoveyError,
    { pages: ApiAnswer<'jobPartitions'>[] },
    readonly unknown[],
    number
  >({
    queryKey: ['jobPartitions', job.id, status],
    initialPageParam: 0,
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) =>
      api.call('jobPartitions', {
        params: { job: job.id },
        query: { status, from: String(pageParam), limit: String(pageSize) },
        signal,
      }),
    getNextPageParam: ({ partitions }) => {
      const last = partitions.at(-1);
      return last === undefined || partitions.length < pageSize ? null : last.index + 1;
    },
  });
  const rows = useMemo(() => data?.pages.flatMap((page) => page.partitions) ?? [], [data]);
  if (error !== null) return <ErrorState title="The partitions are not known" error={error} />;
  if (rows.length === 0 && !isFetching) {
    return (
      <EmptyState
        icon={IconListSearch}
        title={`No partition is ${partitionStatusWords[status][0].toLowerCase()}`}
        action={
          <Button variant="default" onClick={onClear}>
            Show all
          </Button>
        }
      >
        {formatCount(job.partitions.total)} have another status.
      </EmptyState>
    );
  }
  return (
    <PartitionTable
      rows={rows}
      columns={columns}
      onEnd={() => {
        if (hasNextPage && !isFetching) void fetchNextPage();
      }}
    />
  );
}

function PartitionTable(props: {
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly onRange?: (from: number, to: number) => void;
  readonly onEnd?: () => void;
}) {
  const { rows, columns, onRange, onEnd } = props;
  return (
    <DataTable
      label="Partitions"
      rows={rows}
      columns={columns}
      rowKey={keyOf}
      minWidth={columns.some(({ id }) => id === 'range') ? 936 : 786}
      rowHeight={36}
      maxHeight={480}
      {...(onRange === undefined ? {} : { onRange })}
      {...(onEnd === undefined ? {} : { onEnd })}
    />
  );
}

function keyOf(row: Row): string {
  return String(indexOf(row));
}

function indexOf(row: Row): number {
  return typeof row === 'number' ? row : row.index;
}

function columnsOf(part: string, show: (index: number) => void): readonly Column<Row>[] {
  /** Of one that is there. */
  const cell =
    (draw: (view: PartitionView) => React.ReactNode) =>
    (row: Row): React.ReactNode =>
      typeof row === 'number' ? null : draw(row);
  // In a narrow window the first three are in sight beside what opens the log.
  return [
    { id: 'index', title: 'Number', width: '72px', align: 'right', cell: (row) => formatCount(indexOf(row)) },
    {
      id: 'status',
      title: 'Status',
      width: '114px',
      cell: cell(({ status }) => {
        const [word, tone] = partitionStatusWords[status];
        return <StatusMark tone={tone}>{word}</StatusMark>;
      }),
    },
    {
      id: 'progress',
      title: 'Progress',
      width: 'minmax(98px, 0.8fr)',
      cell: cell(({ progress, status }) => (
        <span className={classes['progressCell']}>
          <Meter
            label="Progress"
            used={progress}
            total={1}
            text={formatPercent(progress * 100)}
            tone={status === 'failed' ? 'bad' : 'normal'}
          />
          <span className="number">{formatPercent(progress * 100)}</span>
        </span>
      )),
    },
    {
      id: 'range',
      title: 'Range',
      width: 'minmax(150px, 1.3fr)',
      cell: cell(({ range }) => {
        if (range === null) return '—';
        const [first, last] = [formatCount(range.from), formatCount(range.to - 1)];
        return first === last ? first : `${first} to ${last}`;
      }),
    },
    {
      id: 'machine',
      title: 'Machine',
      width: 'minmax(100px, 1fr)',
      cell: cell(({ nodeName }) => (nodeName === null ? '—' : <Name>{nodeName}</Name>)),
    },
    {
      id: 'attempts',
      title: 'Attempts',
      width: '84px',
      align: 'right',
      cell: cell(({ attempts }) => formatCount(attempts)),
    },
    {
      id: 'time',
      title: 'Time',
      width: '90px',
      align: 'right',
      cell: cell((view) => <Time view={view} />),
    },
    {
      id: 'error',
      title: 'Error',
      width: 'minmax(140px, 2fr)',
      cell: cell((view) => <Why view={view} />),
    },
    {
      id: 'log',
      title: 'Log',
      titleHidden: true,
      width: '66px',
      align: 'right',
      pinned: true,
      cell: cell(({ index, attempts }) =>
        attempts === 0 ? null : (
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`Log of ${part} ${index}`}
            onClick={() => show(index)}
          >
            Log
          </Button>
        ),
      ),
    },
  ];
}

function Time({ view: { startedAt, finishedAt, status } }: { readonly view: PartitionView }) {
  const runs = status === 'running' || status === 'assigned';
  const now = useNow(runs ? 1_000 : 3_600_000);
  if (startedAt === null || (finishedAt === null && !runs)) return null;
  const ms = (finishedAt ?? now) - startedAt;
  return <>{finishedAt === null ? formatDuration(ms) : timeText(ms)}</>;
}

function Why({ view: { error, nextAttemptAt } }: { readonly view: PartitionView }) {
  const now = useNow(nextAttemptAt === null ? 3_600_000 : 1_000);
  if (error === null) return null;
  const text = sentence(plainText(error.message));
  const again =
    nextAttemptAt === null || nextAttemptAt <= now ? '' : `, tried again ${formatAgo(nextAttemptAt, now)}`;
  return (
    <span className={classes['why']} title={text}>
      {text}
      {again}
    </span>
  );
}
