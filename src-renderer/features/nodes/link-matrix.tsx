import { Button, Text } from '@mantine/core';
import { IconActivity, IconAffiliate } from '@tabler/icons-react';
import type { NodeView } from '#shared/api/schema.ts';
import type { PairCheck } from '#shared/api/self.ts';
import { Section } from '../../components/page.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Name } from '../../components/text.tsx';
import { formatDateTime, formatMs, formatRate } from '../../format/format.ts';
import { useAction, useLinks } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { linkGrid, quality } from './link-grid.ts';
import { LinkList } from './link-list.tsx';
import { LinkMark } from './link-mark.tsx';
import classes from './nodes.module.css';

const measureMs = 180_000;
/** More than these in rows and columns are read by nobody, and drawn slowly. */
const mostInMatrix = 24;

/** How machines reach each other: what a model that is split over two of them has between its halves. */
export function LinkMatrix({ nodes }: { readonly nodes: readonly NodeView[] }) {
  const { data } = useLinks();
  const isStale = useIsStale();
  const measure = useAction('doctor', { failed: 'Could not measure the links', changes: ['links'] });
  const links = data?.links ?? [];
  if (nodes.length < 2) return null;
  const isMatrix = nodes.length <= mostInMatrix;
  return (
    <Section
      title="Links"
      lead={isMatrix ? 'From the machine of the row to that of the column.' : 'Those that were measured.'}
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
      {links.length > 0 ? (
        isMatrix ? (
          <Matrix links={links} nodes={nodes} />
        ) : (
          <LinkList links={links} />
        )
      ) : (
        <EmptyState icon={IconAffiliate} title="The links have not been measured">
          Measuring sends a few megabytes between every two machines and takes some seconds.
        </EmptyState>
      )}
    </Section>
  );
}

function Matrix(props: { readonly links: readonly PairCheck[]; readonly nodes: readonly NodeView[] }) {
  const grid = linkGrid(props.links, props.nodes);
  return (
    <div
      className={`scrolls-sideways ${classes['links'] ?? ''}`}
      tabIndex={0}
      role="group"
      aria-label="Links between machines"
    >
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
  if (quality(link) === 'none') return <LinkMark link={link} />;
  const figures = [
    ...(link.rttMs === null ? [] : [formatMs(link.rttMs)]),
    ...(link.bytesPerS === null ? [] : [formatRate(link.bytesPerS)]),
  ];
  return (
    <span title={`Measured ${formatDateTime(link.measuredAt)}`}>
      <LinkMark link={link} />
      <span className={classes['linkFigures']}>
        {figures.map((figure) => (
          <span key={figure}>{figure}</span>
        ))}
      </span>
    </span>
  );
}
