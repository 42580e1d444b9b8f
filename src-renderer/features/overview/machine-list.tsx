import type { NodeView } from '#shared/api/schema.ts';
import { hrefTo } from '../../app/router.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Meter } from '../../components/meter.tsx';
import { NodeStatusMark } from '../../components/status.tsx';
import { Name } from '../../components/text.tsx';
import { formatBytesOf, formatShare } from '../../format/format.ts';
import { useNodeLive } from '../../stores/live.ts';
import { ramOf } from './memory.ts';

const columns: readonly Column<NodeView>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(80px, 1.4fr)',
    sortBy: (node) => node.name,
    cell: (node) => (
      <a href={hrefTo('machines', node.id)} className="row-title">
        <Name>{node.name}</Name>
      </a>
    ),
  },
  {
    id: 'status',
    title: 'Status',
    width: '98px',
    sortBy: (node) => node.status,
    cell: (node) => <NodeStatusMark status={node.status} drain={node.drain} />,
  },
  { id: 'cpu', title: 'CPU', width: '68px', align: 'right', cell: (node) => <Cpu node={node} /> },
  {
    id: 'memory',
    title: 'Memory',
    width: 'minmax(94px, 1.3fr)',
    cell: (node) => <Ram node={node} />,
  },
];

export function MachineList({ nodes }: { readonly nodes: readonly NodeView[] }) {
  return (
    <DataTable
      label="Machines"
      rows={nodes}
      columns={columns}
      rowKey={(node) => node.id}
      rowHeight={44}
      maxHeight={340}
      minWidth={360}
    />
  );
}

function Cpu({ node }: { readonly node: NodeView }) {
  const live = useNodeLive(node.id);
  const load = live?.cpuLoad ?? node.telemetry?.cpuLoad ?? null;
  return <>{!node.connected || load === null ? '–' : formatShare(load)}</>;
}

function Ram({ node }: { readonly node: NodeView }) {
  const figure = ramOf(node, useNodeLive(node.id));
  if (!node.connected || figure === null) return <>–</>;
  const text = formatBytesOf(figure.usedBytes, figure.totalBytes);
  return (
    <div className="row-memory">
      <div>
        <Meter
          label={`Memory of ${node.name} in use`}
          used={figure.usedBytes}
          total={figure.totalBytes}
          text={text}
          {...(figure.oursBytes === null ? {} : { ours: figure.oursBytes })}
        />
        <span className="figure-unit">{text}</span>
      </div>
    </div>
  );
}
