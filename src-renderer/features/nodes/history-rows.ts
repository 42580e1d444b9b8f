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
