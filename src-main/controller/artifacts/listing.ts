import type { z } from 'zod';
import type { artifactListQuerySchema, artifactListSchema } from '#shared/api/jobs.ts';
import type { ArtifactRow } from '../state/sqlite/artifact-store.ts';

type Query = z.output<typeof artifactListQuerySchema>;

/** What of an artifact is not in its row. */
export interface ListedFacts {
  readonly jobs: (row: ArtifactRow) => number;
  readonly holders: (row: ArtifactRow) => number;
  readonly collectableAt: (row: ArtifactRow) => number | null;
  /** See `artifactTitle`. */
  readonly title: (row: ArtifactRow) => string;
  /** Somebody has put it, or a job has it as an input or as a result. */
  readonly isSomeones: (row: ArtifactRow) => boolean;
}

/** The page that was asked for, and what is said of all. */
export function listArtifacts(
  all: readonly ArtifactRow[],
  { text, sort, descending, partial, from, limit }: Query,
  facts: ListedFacts,
  now: number,
): { rows: ArtifactRow[] } & Pick<z.output<typeof artifactListSchema>, 'total' | 'leftOut' | 'unneeded'> {
  const wanted = text?.toLowerCase() ?? '';
  const named = all.filter(
    (row) => facts.title(row).toLowerCase().includes(wanted) || row.id.startsWith(wanted),
  );
  const fitting = partial === '1' ? named : named.filter(facts.isSomeones);
  const leftOut = named.length - fitting.length;
  const sign = descending === '1' ? -1 : 1;
  const valueOf = valuesBy(sort, facts);
  const rows = fitting
    .map((row) => ({ row, value: valueOf(row) }))
    .sort((a, b) => sign * compare(a.value, b.value) || (a.row.id < b.row.id ? -1 : 1))
    .slice(from, limit === undefined ? undefined : from + limit)
    .map(({ row }) => row);
  const bytesOf = (some: readonly ArtifactRow[]): number => some.reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    rows,
    total: fitting.length,
    ...(leftOut > 0 ? { leftOut: { count: leftOut, bytes: bytesOf(named) - bytesOf(fitting) } } : {}),
    unneeded: unneeded(all, facts, now),
  };
}

function valuesBy(
  sort: Query['sort'],
  { jobs, holders, title }: ListedFacts,
): (row: ArtifactRow) => string | number {
  switch (sort) {
    case 'name':
      return title;
    case 'size':
      return ({ bytes }) => bytes;
    case 'files':
      return ({ files }) => files;
    case 'used':
      return ({ lastUsedAt }) => lastUsedAt;
    case 'holders':
      return holders;
    case 'jobs':
      return jobs;
  }
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
function compare(a: string | number, b: string | number): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b));
}

/** What a collection now would take, and what a later one could. Artifacts that share content free less. */
function unneeded(all: readonly ArtifactRow[], { collectableAt }: ListedFacts, now: number) {
  const sums = { due: 0, dueBytes: 0, later: 0, laterBytes: 0, nextAt: null as number | null };
  for (const row of all) {
    const at = collectableAt(row);
    if (at === null) continue;
    if (at <= now) {
      sums.due += 1;
      sums.dueBytes += row.bytes;
    } else {
      sums.later += 1;
      sums.laterBytes += row.bytes;
      sums.nextAt = Math.min(sums.nextAt ?? at, at);
    }
  }
  return sums;
}
