import type { z } from 'zod';
import type { nodeHistorySchema, NodeLive } from '#shared/api/dashboard.ts';

/** One sample of a machine, as history and live figures both have it. */
export type NodeSample = z.infer<typeof nodeHistorySchema>['samples'][number];

export const windowMs = 10 * 60_000;
/** Without a sample for longer than this nothing is known in between, and a line would lie. */
const gapMs = 10_000;

export function toSample(at: number, live: NodeLive): NodeSample {
  const { id: _id, status: _status, lend: _lend, ...figures } = live;
  return { ...figures, at };
}

/** Adds samples, in order of time and each time once, and forgets those older than the window. */
export function mergeSamples(
  samples: readonly NodeSample[],
  added: readonly NodeSample[],
  now: number,
): NodeSample[] {
  const byTime = new Map<number, NodeSample>();
  for (const sample of [...samples, ...added]) byTime.set(sample.at, sample);
  return [...byTime.values()]
    .filter((sample) => sample.at >= now - windowMs && sample.at <= now + gapMs)
    .sort((a, b) => a.at - b.at);
}

/** A point of a chart; null is a hole in the line. */
export interface ChartRow {
  readonly at: number;
  readonly [series: string]: number | null;
}

/** Picks figures out of samples and puts a hole where samples are missing. */
export function chartRows(
  samples: readonly NodeSample[],
  pick: (sample: NodeSample) => Readonly<Record<string, number | null>>,
): ChartRow[] {
  const rows: ChartRow[] = [];
  let last: number | null = null;
  for (const sample of samples) {
    const figures = pick(sample);
    if (last !== null && sample.at - last > gapMs) {
      const hole = Object.fromEntries(Object.keys(figures).map((name) => [name, null]));
      rows.push({ ...hole, at: last + 1 });
    }
    rows.push({ ...figures, at: sample.at });
    last = sample.at;
  }
  return rows;
}

/**
 * At most `most` rows for a chart that has no more pixels: in every stretch the rows with the lowest and the highest
 * value of the first series stay, so that no peak vanishes. Holes stay too.
 */
export function thinRows(rows: readonly ChartRow[], series: string, most: number): ChartRow[] {
  if (rows.length <= most) return [...rows];
  const stretch = Math.ceil(rows.length / Math.max(1, Math.floor(most / 3)));
  const kept: ChartRow[] = [];
  for (let from = 0; from < rows.length; from += stretch) {
    const part = rows.slice(from, from + stretch);
    const value = (row: ChartRow): number => row[series] ?? Number.NaN;
    const known = part.filter((row) => !Number.isNaN(value(row)));
    const least = known.reduce<ChartRow | null>((a, b) => (a && value(a) <= value(b) ? a : b), null);
    const greatest = known.reduce<ChartRow | null>((a, b) => (a && value(a) >= value(b) ? a : b), null);
    const hole = part.find((row) => Number.isNaN(value(row))) ?? null;
    kept.push(...part.filter((row) => row === least || row === greatest || row === hole));
  }
  return kept;
}

/** Whether any row has a figure of any of these series: if not, a chart would be empty. */
export function hasFigures(rows: readonly ChartRow[], series: readonly string[]): boolean {
  return rows.some((row) => series.some((name) => row[name] != null));
}
