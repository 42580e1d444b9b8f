import { z } from 'zod';
import { artifactKindSchema } from '#shared/domain/artifact.ts';
import { artifactIdSchema, jobIdSchema, type ArtifactId, type JobId } from '#shared/lib/ids.ts';
import type { Connection } from './database.ts';

export interface ArtifactRow {
  readonly id: ArtifactId;
  readonly kind: 'file' | 'tree';
  readonly name: string;
  readonly bytes: number;
  readonly files: number;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly pinned: boolean;
  /** Since when nothing needs it; null: something does. */
  readonly freedAt: number | null;
}

/** What the controller keeps of artifacts. Every change is on disk when its function returns. */
export interface ArtifactRecordStore {
  all(): ArtifactRow[];
  references(): { readonly artifactId: ArtifactId; readonly jobId: JobId }[];
  put(row: ArtifactRow): void;
  drop(id: ArtifactId): void;
  /** All or none, with the rows as they are then. */
  addReferences(jobId: JobId, rows: readonly ArtifactRow[]): void;
  dropReferences(jobId: JobId, rows: readonly ArtifactRow[]): void;
}

const artifactRow = z
  .object({
    id: artifactIdSchema,
    kind: artifactKindSchema,
    name: z.string(),
    bytes: z.number(),
    files: z.number(),
    created_at: z.number(),
    last_used_at: z.number(),
    pinned: z.number(),
    freed_at: z.number().nullable(),
  })
  .transform(({ created_at, last_used_at, freed_at, pinned, ...row }): ArtifactRow => ({
    ...row,
    createdAt: created_at,
    lastUsedAt: last_used_at,
    freedAt: freed_at,
    pinned: pinned === 1,
  }));
const referenceRow = z
  .object({ artifact_id: artifactIdSchema, job_id: jobIdSchema })
  .transform((row) => ({ artifactId: row.artifact_id, jobId: row.job_id }));

export function createArtifactRecordStore(connection: Connection): ArtifactRecordStore {
  const all = connection.prepare('SELECT * FROM artifacts ORDER BY created_at, id');
  const references = connection.prepare('SELECT artifact_id, job_id FROM artifact_references');
  const put = connection.prepare(
    `INSERT INTO artifacts (id, kind, name, bytes, files, created_at, last_used_at, pinned, freed_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, last_used_at = excluded.last_used_at,
       pinned = excluded.pinned, freed_at = excluded.freed_at`,
  );
  const drop = connection.prepare('DELETE FROM artifacts WHERE id = ?');
  const refer = connection.prepare(
    'INSERT INTO artifact_references (artifact_id, job_id) VALUES (?, ?) ON CONFLICT DO NOTHING',
  );
  const dropJob = connection.prepare('DELETE FROM artifact_references WHERE job_id = ?');
  const write = (row: ArtifactRow): void => {
    put.run(
      row.id,
      row.kind,
      row.name,
      row.bytes,
      row.files,
      row.createdAt,
      row.lastUsedAt,
      row.pinned ? 1 : 0,
      row.freedAt,
    );
  };
  return {
    all: () => all.all().map((row) => artifactRow.parse(row)),
    references: () => references.all().map((row) => referenceRow.parse(row)),
    put: write,
    drop: (id) => void drop.run(id),
    addReferences: connection.transaction((jobId: JobId, rows: readonly ArtifactRow[]) => {
      for (const row of rows) {
        write(row);
        refer.run(row.id, jobId);
      }
    }),
    dropReferences: connection.transaction((jobId: JobId, rows: readonly ArtifactRow[]) => {
      dropJob.run(jobId);
      rows.forEach(write);
    }),
  };
}
