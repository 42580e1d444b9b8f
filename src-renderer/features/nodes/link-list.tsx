import type { PairCheck } from '#shared/api/self.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatMs, formatRate } from '../../format/format.ts';
import { LinkMark } from './link-mark.tsx';

/** The links of many machines: a table of pairs would have the square of their number as cells. */
export function LinkList({ links }: { readonly links: readonly PairCheck[] }) {
  return (
    <DataTable
      label="Links between machines"
      rows={links}
      columns={columns}
      rowKey={({ from, to }) => `${from} ${to}`}
      rowHeight={40}
      minWidth={660}
      initialSort={{ id: 'roundTrip', descending: true }}
    />
  );
}

const columns: readonly Column<PairCheck>[] = [
  {
    id: 'from',
    title: 'From',
    width: 'minmax(110px, 2fr)',
    sortBy: ({ fromName }) => fromName,
    cell: ({ fromName }) => <Name>{fromName}</Name>,
  },
  {
    id: 'to',
    title: 'To',
    width: 'minmax(110px, 2fr)',
    sortBy: ({ toName }) => toName,
    cell: ({ toName }) => <Name>{toName}</Name>,
  },
  {
    id: 'way',
    title: 'Way',
    width: '150px',
    sortBy: ({ path }) => path,
    cell: (link) => <LinkMark link={link} />,
  },
  {
    id: 'roundTrip',
    title: 'Round trip',
    width: '110px',
    align: 'right',
    sortBy: ({ rttMs }) => rttMs,
    cell: ({ rttMs }) => (rttMs === null ? '' : formatMs(rttMs)),
  },
  {
    id: 'speed',
    title: 'Speed',
    width: '110px',
    align: 'right',
    sortBy: ({ bytesPerS }) => bytesPerS,
    cell: ({ bytesPerS }) => (bytesPerS === null ? '' : formatRate(bytesPerS)),
  },
  {
    id: 'measured',
    title: 'Measured',
    width: '110px',
    sortBy: ({ measuredAt }) => measuredAt,
    cell: ({ measuredAt }) => <Ago at={measuredAt} />,
  },
];
