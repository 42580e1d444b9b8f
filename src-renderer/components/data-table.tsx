import { UnstyledButton } from '@mantine/core';
import { IconChevronDown, IconChevronUp, IconSelector } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useMemo, useRef, useState, type ReactNode } from 'react';

export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  /** Heard and not seen: what the cells hold says it. */
  readonly titleHidden?: boolean;
  readonly cell: (row: Row) => ReactNode;
  /** By what it is sorted; without it, it is not. null goes last in both directions. */
  readonly sortBy?: (row: Row) => string | number | null;
  /** Of the width: a CSS grid track such as `120px` or `minmax(160px, 2fr)`. Default: `minmax(90px, 1fr)`. */
  readonly width?: string;
  readonly align?: 'left' | 'right';
  /** Stays at the right edge where the table is scrolled sideways: for what can be done with the row. */
  readonly pinned?: boolean;
}

export interface TableSort {
  readonly id: string;
  readonly descending: boolean;
}

export interface DataTableProps<Row> {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly rowKey: (row: Row) => string;
  readonly rowHeight?: number;
  /** It scrolls inside from this height on. Default: 480. */
  readonly maxHeight?: number | string;
  /** Below this width it scrolls sideways. */
  readonly minWidth?: number;
  readonly onRowClick?: (row: Row) => void;
  readonly initialSort?: TableSort;
  /** Rows come sorted like this, and `onSort` has them sorted otherwise: where not all of them are here. */
  readonly sort?: TableSort;
  readonly onSort?: (sort: TableSort) => void;
  readonly empty?: ReactNode;
  /** Which rows can be seen, and some before and after them: those before others can be left out until then. */
  readonly onRange?: (from: number, to: number) => void;
  /** The last row is about to be seen: more can be fetched. */
  readonly onEnd?: () => void;
}

/**
 * A table of any length: only the rows that can be seen exist. Columns that say what they are sorted by can be
 * sorted. Rows that can be opened are reached by keyboard through what their cells hold.
 */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { columns, rowKey, rowHeight = 40, maxHeight = 480, minWidth = 560 } = props;
  const [ownSort, setSort] = useState(props.initialSort ?? null);
  const sort = props.sort ?? ownSort;
  const isSorted = props.sort !== undefined;
  const rows = useMemo(
    () => (isSorted ? props.rows : sorted(props.rows, columns, sort)),
    [isSorted, props.rows, columns, sort],
  );
  const scroller = useRef<HTMLDivElement>(null);
  // Another function has every row measured again.
  const getItemKey = useCallback((index: number) => rowKey(rows[index] as Row), [rows, rowKey]);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    getItemKey,
    onChange: (instance) => {
      const items = instance.getVirtualItems();
      const [first, last] = [items[0], items.at(-1)];
      if (first !== undefined && last !== undefined) props.onRange?.(first.index, last.index);
      if (last !== undefined && last.index >= rows.length - 2) props.onEnd?.();
    },
  });
  if (rows.length === 0 && props.empty !== undefined) return <>{props.empty}</>;
  const template = columns.map((column) => column.width ?? 'minmax(90px, 1fr)').join(' ');

  return (
    <div
      className="table-scroller"
      ref={scroller}
      style={{ maxHeight }}
      tabIndex={0}
      aria-label={props.label}
      role="group"
    >
      <div role="table" aria-label={props.label} aria-rowcount={rows.length + 1} style={{ minWidth }}>
        <div role="rowgroup" className="table-head">
          <div role="row" className="table-row" style={{ gridTemplateColumns: template }} aria-rowindex={1}>
            {columns.map((column) => (
              <HeadCell key={column.id} column={column} sort={sort} onSort={props.onSort ?? setSort} />
            ))}
          </div>
        </div>
        <div role="rowgroup" className="table-body" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const row = rows[item.index] as Row;
            return (
              <BodyRow
                key={item.key}
                row={row}
                columns={columns}
                index={item.index}
                top={item.start}
                height={rowHeight}
                template={template}
                onClick={props.onRowClick}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface BodyRowProps<Row> {
  readonly row: Row;
  readonly columns: readonly Column<Row>[];
  readonly index: number;
  readonly top: number;
  readonly height: number;
  readonly template: string;
  readonly onClick: ((row: Row) => void) | undefined;
}

/** Scrolling draws the rows that come into sight, not those that stay. */
const BodyRow = memo(function BodyRow<Row>(props: BodyRowProps<Row>) {
  const { row, columns, index, top, height, template, onClick } = props;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="table-row"
      data-clickable={onClick !== undefined || undefined}
      style={{ gridTemplateColumns: template, height, transform: `translateY(${top}px)` }}
      onClick={onClick === undefined ? undefined : () => onClick(row)}
    >
      {columns.map((column) => (
        <div
          key={column.id}
          role="cell"
          className="table-cell"
          data-align={column.align}
          data-pinned={column.pinned}
        >
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}) as <Row>(props: BodyRowProps<Row>) => ReactNode;

function HeadCell<Row>(props: {
  readonly column: Column<Row>;
  readonly sort: TableSort | null;
  readonly onSort: (sort: TableSort) => void;
}) {
  const { column, sort } = props;
  const isSorted = sort?.id === column.id;
  const Mark = !isSorted ? IconSelector : sort.descending ? IconChevronDown : IconChevronUp;
  return (
    <div
      role="columnheader"
      className="table-cell"
      data-align={column.align}
      data-pinned={column.pinned}
      aria-sort={isSorted ? (sort.descending ? 'descending' : 'ascending') : undefined}
    >
      {column.sortBy === undefined ? (
        <span className={column.titleHidden === true ? 'visually-hidden' : undefined}>{column.title}</span>
      ) : (
        <UnstyledButton
          className="table-sort"
          onClick={() => props.onSort({ id: column.id, descending: isSorted && !sort.descending })}
        >
          {column.title}
          <Mark size={14} aria-hidden />
        </UnstyledButton>
      )}
    </div>
  );
}

function sorted<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sort: TableSort | null,
): readonly Row[] {
  const by = columns.find((column) => column.id === sort?.id)?.sortBy;
  if (by === undefined || sort === null) return rows;
  const sign = sort.descending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: by(row) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
      return sign * compare(a.value, b.value);
    })
    .map(({ row }) => row);
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
function compare(a: string | number, b: string | number): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b));
}
