import { useMemo } from 'react';
import type { JobView, ShareView } from '#shared/domain/job.ts';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Section } from '../../components/page.tsx';
import { Name } from '../../components/text.tsx';
import { formatCount, formatPercent } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { machineColour } from '../models/layer-strip.tsx';
import { isFinished, speedText } from './job-words.ts';
import classes from './jobs.module.css';

type Row = ShareView & { readonly colour: string; readonly unit: string };

/** What each machine has done and is meant to do; one that gets nothing says why. */
export function Shares({ job }: { readonly job: JobView }) {
  const { shares, units } = job;
  const isOver = isFinished(job);
  const areAllWanted = shares.every(({ whyNot }) => whyNot === null);
  const shown = useMemo(
    () =>
      columns.filter(({ id }) => {
        // Once it is over nothing is planned any more.
        if (planned.includes(id)) return !isOver;
        return id !== 'why' || !areAllWanted;
      }),
    [isOver, areAllWanted],
  );
  const rows = useMemo<Row[]>(
    () =>
      // Always in this order, so that rows and colours stay where they are while shares change.
      [...shares]
        .sort(
          (a, b) =>
            Number(a.whyNot !== null) - Number(b.whyNot !== null) || a.nodeName.localeCompare(b.nodeName),
        )
        .map((share, index) => ({ ...share, colour: machineColour(index), unit: units.unit })),
    [shares, units.unit],
  );
  if (rows.length === 0) return null;
  const worked = rows.filter(({ donePercent }) => donePercent > 0);
  const words = worked.map(
    ({ nodeName, donePercent }) => `${plainText(nodeName)} ${formatPercent(donePercent)}`,
  );
  return (
    <Section title="Machines" lead={leadText(job)}>
      <div
        className={classes['shareBar']}
        role="img"
        aria-label={words.length === 0 ? 'Nothing is done yet' : `Done of the whole: ${words.join(', ')}`}
      >
        {worked.map(({ nodeId, nodeName, donePercent, colour }) => (
          <div
            key={nodeId}
            style={{ width: `${donePercent}%`, background: colour }}
            title={`${plainText(nodeName)} ${formatPercent(donePercent)}`}
          />
        ))}
      </div>
      <div className={classes['toEdges']}>
        <DataTable
          label="Shares of the machines"
          rows={rows}
          columns={shown}
          rowKey={({ nodeId }) => nodeId}
          minWidth={354 + (isOver ? 0 : 190) + (areAllWanted ? 0 : 160)}
          maxHeight={300}
          rowHeight={36}
        />
      </div>
    </Section>
  );
}

/** Columns that say what is meant to happen. */
const planned = ['target', 'running'];

function leadText(job: JobView): string {
  if (job.kind === 'gang') return 'Ranks are spread as evenly as can be.';
  if (isFinished(job)) return 'What each of them has done.';
  return job.distribution === 'auto' ? 'Shares follow the measured speed.' : 'Shares are set by hand.';
}

const columns: readonly Column<Row>[] = [
  {
    id: 'machine',
    title: 'Machine',
    width: 'minmax(110px, 1.5fr)',
    sortBy: ({ nodeName }) => nodeName,
    cell: ({ nodeName, colour, whyNot }) => (
      <span className={classes['machineName']}>
        <span className={classes['dot']} style={{ background: whyNot === null ? colour : 'transparent' }} />
        <Name>{nodeName}</Name>
      </span>
    ),
  },
  {
    id: 'done',
    title: 'Done',
    width: '76px',
    align: 'right',
    sortBy: ({ donePercent }) => donePercent,
    cell: ({ donePercent }) => formatPercent(donePercent),
  },
  {
    id: 'target',
    title: 'Share',
    width: '80px',
    align: 'right',
    sortBy: ({ targetPercent }) => targetPercent,
    cell: ({ targetPercent }) => (targetPercent === null ? '—' : formatPercent(targetPercent)),
  },
  {
    id: 'running',
    title: 'Running',
    width: '110px',
    align: 'right',
    sortBy: ({ running }) => running,
    cell: ({ running }) => formatCount(running),
  },
  {
    id: 'speed',
    title: 'Speed',
    width: 'minmax(148px, 1fr)',
    align: 'right',
    sortBy: ({ unitsPerS }) => unitsPerS,
    cell: ({ unitsPerS, unit }) => (unitsPerS === null ? '—' : speedText(unitsPerS, unit)),
  },
  {
    id: 'why',
    title: 'Why it gets nothing',
    titleHidden: true,
    width: 'minmax(160px, 2.5fr)',
    cell: ({ whyNot }) =>
      whyNot === null ? null : (
        <span className={classes['why']} title={plainText(whyNot)}>
          {plainText(whyNot)}
        </span>
      ),
  },
];
