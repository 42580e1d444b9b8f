import { useCallback, useState } from 'react';
import { useQueries } from '@tanstack/react-query';
import type { CoveyError } from '#shared/errors.ts';

/** A row that has not been fetched is its index. */
export type WindowRow<Row> = Row | number;

export type PageQuery = {
  readonly from: string;
  readonly limit: string;
};

const pageSize = 200;
/** After they were last in sight: whoever scrolls through thousands of rows keeps only the last of them. */
const keptMs = 10_000;

/**
 * A list of any length, of which only the pages in sight are asked for, now and when it is out of date.
 * @param page what one page is called and how it is fetched
 * @returns `pages`: those that are known; `onRange` is for the table
 */
export function useRowWindow<Answer>(
  page: (query: PageQuery) => {
    readonly queryKey: readonly unknown[];
    readonly queryFn: (context: { readonly signal: AbortSignal }) => Promise<Answer>;
  },
): {
  readonly pages: readonly { readonly from: number; readonly answer: Answer }[];
  readonly error: CoveyError | null;
  readonly refetch: () => void;
  readonly onRange: (from: number, to: number) => void;
} {
  const [range, setRange] = useState({ first: 0, last: 0 });
  const onRange = useCallback((from: number, to: number) => {
    const next = { first: Math.floor(from / pageSize), last: Math.floor(to / pageSize) };
    setRange((known) => (known.first === next.first && known.last === next.last ? known : next));
  }, []);
  const starts = Array.from(
    { length: range.last - range.first + 1 },
    (_, index) => (range.first + index) * pageSize,
  );
  return useQueries({
    queries: starts.map((from) => ({
      ...page({ from: String(from), limit: String(pageSize) }),
      gcTime: keptMs,
    })),
    combine: (results) => ({
      pages: results.flatMap(({ data }, index) =>
        data === undefined ? [] : [{ from: starts[index] ?? 0, answer: data }],
      ),
      error: (results.find(({ error }) => error !== null)?.error ?? null) as CoveyError | null,
      refetch: () => results.forEach(({ refetch }) => void refetch()),
      onRange,
    }),
  });
}

/** So many rows, each with what a page says of it. */
export function windowRows<Row>(
  total: number,
  pages: readonly { readonly from: number; readonly rows: readonly Row[] }[],
): readonly WindowRow<Row>[] {
  const all = Array.from({ length: total }, (_, index): WindowRow<Row> => index);
  for (const { from, rows } of pages) {
    rows.forEach((row, index) => {
      if (from + index < total) all[from + index] = row;
    });
  }
  return all;
}
