import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId, JobId } from '#shared/lib/ids.ts';
import type { ArtifactRecordStore, ArtifactRow } from '../state/sqlite/artifact-store.ts';

/** The artifacts that are whole in the controller's store: what they are called and what needs them. */
export interface ArtifactRecords {
  list(): ArtifactRow[];
  get(id: ArtifactId): ArtifactRow | null;
  /**
   * By id, or the beginning of one; by what it is called in lists, or by its own name.
   * @param titleOf what it is called in lists: its name, or `JOB/NAME`
   * @throws CoveyError `artifact_not_found`, `artifact_ambiguous`
   */
  find(ref: string, titleOf: (row: ArtifactRow) => string): ArtifactRow;
  jobs(id: ArtifactId): JobId[];
  /**
   * It is whole from now on. One that is known stays what it is, but for the name that a person has given it now,
   * and is pinned from then on.
   */
  add(stake: ArtifactStake, files: number, name: string, pinned: boolean): ArtifactRow;
  unpin(id: ArtifactId): void;
  refer(jobId: JobId, ids: readonly ArtifactId[]): void;
  /** @returns those that nothing needs any more */
  release(jobId: JobId): ArtifactId[];
  /** Forgets what is kept for jobs of which there is no record. @returns how many jobs those were */
  releaseLost(exists: (jobId: JobId) => boolean): number;
  used(id: ArtifactId): void;
  drop(id: ArtifactId): void;
  /** When it may be collected; null: it is needed. */
  collectableAt(row: ArtifactRow): number | null;
}

const minPrefix = 8;
/** Use is written down at most this often: it matters by the hour. */
const usedEveryMs = 60_000;

/** @param graceMs how long an artifact stays after nothing needs it any more */
export function createArtifactRecords(
  store: ArtifactRecordStore,
  graceMs: number,
  now: () => number,
): ArtifactRecords {
  const rows = new Map(store.all().map((row) => [row.id, row]));
  const jobsOf = new Map<ArtifactId, Set<JobId>>();
  for (const { artifactId, jobId } of store.references()) addTo(jobsOf, artifactId, jobId);

  const get = (id: ArtifactId): ArtifactRow => {
    const row = rows.get(id);
    if (row) return row;
    throw new CoveyError('artifact_not_found', `There is no artifact ${id.slice(0, 12)}.`, {
      field: 'artifact',
    });
  };
  const put = (row: ArtifactRow): ArtifactRow => {
    store.put(row);
    rows.set(row.id, row);
    return row;
  };
  const freed = (row: ArtifactRow, jobs: number): ArtifactRow => {
    const needed = row.pinned || jobs > 0;
    if (needed) return { ...row, freedAt: null };
    return row.freedAt === null ? { ...row, freedAt: now() } : row;
  };

  const release = (jobId: JobId): ArtifactId[] => {
    const ids = [...jobsOf].filter(([, jobs]) => jobs.has(jobId)).map(([id]) => id);
    const next = ids.map((id) => freed(get(id), (jobsOf.get(id)?.size ?? 1) - 1));
    store.dropReferences(jobId, next);
    for (const row of next) {
      rows.set(row.id, row);
      jobsOf.get(row.id)?.delete(jobId);
    }
    return next.filter(({ freedAt }) => freedAt !== null).map(({ id }) => id);
  };

  return {
    list: () => [...rows.values()],
    get: (id) => rows.get(id) ?? null,
    find(ref, titleOf) {
      const all = [...rows.values()];
      const text = ref.toLowerCase();
      const byId = /^[0-9a-f]+$/.test(text) && text.length >= minPrefix;
      const exact = rows.get(text as ArtifactId);
      if (exact) return exact;
      const own = all.filter(({ name }) => name === ref);
      const titled = (ref.includes('/') ? all : own).filter((row) => titleOf(row) === ref);
      const named = titled.length > 0 ? titled : own;
      const found = named.length > 0 ? named : byId ? all.filter(({ id }) => id.startsWith(text)) : [];
      const [first] = found;
      if (first && found.length === 1) return first;
      const shown = JSON.stringify(ref.slice(0, 100));
      if (!first) {
        throw new CoveyError(
          'artifact_not_found',
          `There is no artifact ${shown}: "covey artifacts ls" lists them.`,
          {
            field: 'artifact',
          },
        );
      }
      const ids = found.slice(0, 5).map(({ id }) => id.slice(0, 12));
      throw new CoveyError(
        'artifact_ambiguous',
        `${found.length} artifacts are ${shown}: name one by its id (${ids.join(', ')}).`,
        { field: 'artifact' },
      );
    },
    jobs: (id) => [...(jobsOf.get(id) ?? [])],
    add({ id, kind, bytes }, files, name, pinned) {
      const before = rows.get(id);
      const at = now();
      const row = before
        ? { ...before, lastUsedAt: at, ...(pinned ? { name, pinned } : {}) }
        : { id, kind, bytes, files, name, pinned, createdAt: at, lastUsedAt: at, freedAt: null };
      return put(freed(row, jobsOf.get(id)?.size ?? 0));
    },
    unpin(id) {
      put(freed({ ...get(id), pinned: false }, jobsOf.get(id)?.size ?? 0));
    },
    refer(jobId, ids) {
      const at = now();
      const next = [...new Set(ids)].map((id) => ({ ...get(id), lastUsedAt: at, freedAt: null }));
      store.addReferences(jobId, next);
      for (const row of next) {
        rows.set(row.id, row);
        addTo(jobsOf, row.id, jobId);
      }
    },
    release,
    releaseLost(exists) {
      const lost = new Set(
        [...jobsOf.values()].flatMap((jobs) => [...jobs].filter((jobId) => !exists(jobId))),
      );
      for (const jobId of lost) release(jobId);
      return lost.size;
    },
    used(id) {
      const row = rows.get(id);
      if (row && now() - row.lastUsedAt > usedEveryMs) put({ ...row, lastUsedAt: now() });
    },
    drop(id) {
      store.drop(id);
      rows.delete(id);
      jobsOf.delete(id);
    },
    collectableAt: ({ freedAt, lastUsedAt }) =>
      freedAt === null ? null : Math.max(freedAt, lastUsedAt) + graceMs,
  };
}

function addTo(map: Map<ArtifactId, Set<JobId>>, id: ArtifactId, jobId: JobId): void {
  const set = map.get(id) ?? new Set();
  set.add(jobId);
  map.set(id, set);
}
