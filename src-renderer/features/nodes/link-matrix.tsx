import { Button, Text, Tooltip } from '@mantine/core';
import { IconActivity, IconAffiliate } from '@tabler/icons-react';
import type { NodeView } from '#shared/api/schema.ts';
import type { PairCheck } from '#shared/api/self.ts';
import { Section } from '../../components/page.tsx';
import { EmptyState } from '../../components/states.tsx';
import { StatusMark, type Tone } from '../../components/status.tsx';
import { Name } from '../../components/text.tsx';
import { formatDateTime, formatMs, formatRate } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useLinks } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { linkGrid, quality } from './link-grid.ts';
import classes from './nodes.module.css';

const measureMs = 180_000;
const tones: Readonly<Record<ReturnType<typeof quality>, Tone>> = {
  good: 'good',
  fair: 'warn',
  poor: 'bad',
  none: 'bad',
};
const paths = { direct: 'direct', reverse: 'reverse', relay: 'relayed', local: 'local' } as const;

/** How machines reach each other: what a model that is split over two of them has between its halves. */
export function LinkMatrix({ nodes }: { readonly nodes: readonly NodeView[] }) {
  const { data } = useLinks();
  const isStale = useIsStale();
  const measure = useAction('doctor', { failed: 'Could not measure the links', changes: ['links'] });
  const grid = linkGrid(data?.links ?? [], nodes);
  if (nodes.length < 2) return null;
  const isMeasured = (data?.links.length ?? 0) > 0;
  return (
    <Section
      title="Links"
      lead="From the machine of the row to that of the column."
      actions={
        <Button
          variant="default"
          size="compact-sm"
          leftSection={<IconActivity size={16} aria-hidden />}
          loading={measure.isPending}
          disabled={isStale}
          onClick={() => measure.mutate({ timeoutMs: measureMs })}
        >
          Measure now
        </Button>
      }
    >
      {isMeasured ? (
        <div className={classes['links']} tabIndex={0} role="group" aria-label="Links between machines">
          <table>
            <thead>
              <tr>
                <th scope="col">From</th>
                {grid.nodes.map(({ id, name }) => (
                  <th key={id} scope="col">
                    <Name>{name}</Name>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {grid.nodes.map((from, row) => (
                <tr key={from.id}>
                  <th scope="row">
                    <Name>{from.name}</Name>
                  </th>
                  {grid.nodes.map((to, column) => (
                    <td key={to.id}>
                      {from.id === to.id ? (
                        <Text span size="sm" c="dimmed" aria-label="itself">
                          –
                        </Text>
                      ) : (
                        <Cell link={grid.cells[row]?.[column] ?? null} />
                      )}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <EmptyState icon={IconAffiliate} title="The links have not been measured">
          Measuring sends a few megabytes between every two machines and takes some seconds.
        </EmptyState>
      )}
    </Section>
  );
}

function Cell({ link }: { readonly link: PairCheck | null }) {
  if (link === null) {
    return (
      <Text span size="sm" c="dimmed">
        not measured
      </Text>
    );
  }
  const grade = quality(link);
  if (grade === 'none') {
    return (
      <Tooltip label={plainText(link.error?.message ?? 'No way was found.')} multiline maw={360}>
        <span tabIndex={0}>
          <StatusMark tone="bad">No link</StatusMark>
        </span>
      </Tooltip>
    );
  }
  const figures = [
    ...(link.rttMs === null ? [] : [formatMs(link.rttMs)]),
    ...(link.bytesPerS === null ? [] : [formatRate(link.bytesPerS)]),
  ];
  return (
    <span title={`Measured ${formatDateTime(link.measuredAt)}`}>
      <StatusMark tone={tones[grade]}>{link.path === null ? '' : paths[link.path]}</StatusMark>
      <span className={classes['linkFigures']}>{figures.join(' · ')}</span>
    </span>
  );
}
