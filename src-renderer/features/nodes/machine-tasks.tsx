import { Anchor } from '@mantine/core';
import type { TaskView } from '#shared/domain/job.ts';
import type { NodeView } from '#shared/api/schema.ts';
import { hrefTo } from '../../app/router.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Section } from '../../components/page.tsx';
import { ErrorState, LoadingRows } from '../../components/states.tsx';
import { StatusMark } from '../../components/status.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatBytes, formatCount, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useFollow, useRead } from '../../queries/queries.ts';
import { useLive } from '../../stores/live.ts';
import classes from './nodes.module.css';

const mostShown = 200;
const followed = ['tasks'] as const;

/** What this machine computes for jobs now, and what it lends to them. */
export function MachineTasks({ node }: { readonly node: NodeView }) {
  const { data, error, refetch } = useRead('tasks', {
    query: { node: node.id, outcome: 'running', limit: String(mostShown) },
  });
  useFollow(
    useLive(({ jobs }) => jobs),
    followed,
  );
  return (
    <Section title="Jobs there" lead={lentText(node)} flush>
      {error !== null && data === undefined ? (
        <ErrorState title="Its work is not known" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <LoadingRows />
      ) : (
        <DataTable
          label={`Work of jobs on ${plainText(node.name)}`}
          rows={data.tasks}
          columns={columns}
          rowKey={({ id }) => id}
          rowHeight={36}
          maxHeight={300}
          minWidth={480}
          empty={<p className={`state ${classes['nothing'] ?? ''}`}>No job runs on this machine.</p>}
        />
      )}
    </Section>
  );
}

/** `8 processors and 12 GiB of memory for jobs; programs of others are not allowed` */
function lentText({ compute }: NodeView): string {
  if (compute === null) return 'What it lends to jobs is not known while it is not connected.';
  const { cpus, memoryBytes, commands, kernels, problems } = compute;
  const parts = [`${plural(cpus, 'processor')} and ${formatBytes(memoryBytes)} of memory for jobs`];
  if (kernels === null) parts.push('no calculations');
  parts.push(commands.allowed ? 'programs of members are allowed' : 'programs of members are not allowed');
  const why = problems.length === 0 ? '' : ` (${problems.map((text) => plainText(text)).join(' ')})`;
  return `${parts.join('; ')}${why}`;
}

const columns: readonly Column<TaskView>[] = [
  {
    id: 'job',
    title: 'Job',
    width: 'minmax(140px, 2fr)',
    sortBy: ({ jobName }) => jobName,
    cell: ({ jobId, jobName }) => (
      <Anchor inherit href={hrefTo('jobs', jobId)}>
        <Name>{jobName}</Name>
      </Anchor>
    ),
  },
  {
    id: 'index',
    title: 'Partition',
    width: '100px',
    align: 'right',
    sortBy: ({ index }) => index,
    cell: ({ index }) => formatCount(index),
  },
  {
    id: 'state',
    title: 'State',
    width: '130px',
    cell: ({ startedAt }) =>
      startedAt === null ? (
        <StatusMark tone="quiet">Next in line</StatusMark>
      ) : (
        <StatusMark tone="busy">Running</StatusMark>
      ),
  },
  {
    id: 'since',
    title: 'Since',
    width: '110px',
    sortBy: ({ startedAt, assignedAt }) => startedAt ?? assignedAt,
    cell: ({ startedAt, assignedAt }) => <Ago at={startedAt ?? assignedAt} />,
  },
];
