import { Anchor } from '@mantine/core';
import type { NodeView } from '#shared/api/schema.ts';
import { hrefTo } from '../../app/router.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { NodeStatusMark } from '../../components/status.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatBytes, formatBytesOf, formatShare } from '../../format/format.ts';
import { useNodeLive } from '../../stores/live.ts';
import { nodeFigures, systemText } from './figures.ts';
import { MachineActions } from './machine-actions.tsx';

/** Many machines in few lines. Figures are live in their cells; sorting is by what was last told of all. */
export function MachineTable({ nodes }: { readonly nodes: readonly NodeView[] }) {
  return (
    <DataTable
      label="Machines"
      rows={nodes}
      columns={columns}
      rowKey={({ id }) => id}
      rowHeight={46}
      minWidth={1002}
      maxHeight="min(70vh, 900px)"
      initialSort={{ id: 'name', descending: false }}
    />
  );
}

const columns: readonly Column<NodeView>[] = [
  {
    id: 'name',
    title: 'Machine',
    width: 'minmax(92px, 2fr)',
    sortBy: ({ name }) => name,
    cell: ({ id, name }) => (
      <Anchor href={hrefTo('machines', id)}>
        <Name>{name}</Name>
      </Anchor>
    ),
  },
  {
    id: 'status',
    title: 'State',
    width: '104px',
    sortBy: ({ status }) => status,
    cell: (node) => <Status node={node} />,
  },
  {
    id: 'system',
    title: 'System',
    width: 'minmax(112px, 1fr)',
    sortBy: systemText,
    cell: (node) => systemText(node) ?? '',
  },
  {
    id: 'cpu',
    title: 'CPU',
    width: '66px',
    align: 'right',
    sortBy: ({ telemetry }) => telemetry?.cpuLoad ?? null,
    cell: (node) => <Cpu node={node} />,
  },
  {
    id: 'memory',
    title: 'Memory',
    width: '116px',
    align: 'right',
    sortBy: ({ telemetry }) => telemetry?.ramAvailableBytes ?? null,
    cell: (node) => <Memory node={node} />,
  },
  {
    id: 'cards',
    title: 'Graphics',
    width: '98px',
    align: 'right',
    sortBy: (node) => cardBytes(node),
    cell: (node) => (cardBytes(node) === 0 ? '' : formatBytes(cardBytes(node))),
  },
  {
    id: 'models',
    title: 'Models',
    width: '84px',
    align: 'right',
    sortBy: ({ deployments }) => deployments.length,
    cell: ({ deployments }) => String(deployments.length),
  },
  {
    id: 'version',
    title: 'Version',
    width: '106px',
    sortBy: ({ version }) => version,
    cell: ({ version }) => version ?? '',
  },
  {
    id: 'seen',
    title: 'Heard of',
    width: '100px',
    sortBy: ({ lastSeenAt }) => lastSeenAt,
    cell: ({ connected, lastSeenAt }) =>
      connected ? 'now' : lastSeenAt === null ? 'never' : <Ago at={lastSeenAt} />,
  },
  {
    id: 'actions',
    title: 'Actions',
    width: '104px',
    align: 'right',
    pinned: true,
    cell: (node) => (
      <span style={{ display: 'inline-flex' }}>
        <MachineActions node={node} />
      </span>
    ),
  },
];

function cardBytes(node: NodeView): number {
  return nodeFigures(node, null).devices.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
}

function Status({ node }: { readonly node: NodeView }) {
  return <NodeStatusMark status={useNodeLive(node.id)?.status ?? node.status} drain={node.drain} />;
}

function Cpu({ node }: { readonly node: NodeView }) {
  const { cpuLoad } = nodeFigures(node, useNodeLive(node.id));
  return <>{cpuLoad === null ? '' : formatShare(cpuLoad)}</>;
}

function Memory({ node }: { readonly node: NodeView }) {
  const { ramTotalBytes, ramUsedBytes } = nodeFigures(node, useNodeLive(node.id));
  if (ramTotalBytes === null) return null;
  return (
    <>{ramUsedBytes === null ? formatBytes(ramTotalBytes) : formatBytesOf(ramUsedBytes, ramTotalBytes)}</>
  );
}
