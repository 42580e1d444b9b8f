import { displayWidth, pad, printable, truncate, truncateInside } from './text.ts';

export interface Column<Row> {
  readonly header: string;
  readonly value: (row: Row) => string;
  readonly align?: 'left' | 'right';
  /** May be cut down to this many columns when the table is too wide; without it, never. */
  readonly shrinkTo?: number;
  /** Where what is missing then is taken away; default: at the end. */
  readonly cut?: 'inside';
  /** Colours one cell; gets the text as it will stand there. */
  readonly paint?: (text: string, row: Row) => string;
}

const gap = 2;

/**
 * Rows as aligned columns within `width` terminal columns; control characters in values are escaped. What does not fit is taken from the widest column
 * that may shrink, again and again, until it fits or nothing may shrink any more.
 */
export function renderTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width: number,
  indent = '',
): string {
  const cells = rows.map((row) => columns.map((column) => printable(column.value(row))));
  const widths = columns.map((column, index) =>
    Math.max(displayWidth(column.header), ...cells.map((line) => displayWidth(line[index] ?? ''))),
  );
  const total = (): number =>
    indent.length + widths.reduce((sum, one) => sum + one, 0) + gap * (columns.length - 1);
  while (total() > width) {
    let widest = -1;
    columns.forEach((column, index) => {
      const may = column.shrinkTo !== undefined && (widths[index] ?? 0) > Math.max(column.shrinkTo, 1);
      if (may && (widest === -1 || (widths[index] ?? 0) > (widths[widest] ?? 0))) widest = index;
    });
    if (widest === -1) break;
    widths[widest] = (widths[widest] ?? 1) - 1;
  }
  const line = (texts: readonly string[], row: Row | null): string =>
    (
      indent +
      columns
        .map((column, index) => {
          const columnWidth = widths[index] ?? 0;
          const shorten = column.cut === 'inside' ? truncateInside : truncate;
          const text = shorten(texts[index] ?? '', columnWidth);
          const filled = pad(text, columnWidth, column.align);
          return row !== null && column.paint && text !== ''
            ? filled.replace(text, () => column.paint?.(text, row) ?? text)
            : filled;
        })
        .join(' '.repeat(gap))
    ).trimEnd();
  const header = line(
    columns.map((column) => column.header),
    null,
  );
  return `${[header, ...rows.map((row, index) => line(cells[index] ?? [], row))].join('\n')}\n`;
}

/** `Label:  value` lines with the values aligned; pairs without a value are left out. */
export function renderFields(fields: readonly (readonly [string, string | null])[]): string {
  const present = fields.filter((field): field is readonly [string, string] => field[1] !== null);
  const width = Math.max(...present.map(([label]) => displayWidth(label)));
  return present.map(([label, value]) => `${pad(`${label}:`, width + 2)}${printable(value)}\n`).join('');
}
