import path from 'node:path';
import Database from 'better-sqlite3';
import { z } from 'zod';

const recordSchema = z.object({
  index: z.number(),
  phase: z.string(),
  epoch: z.number(),
  tasks: z.array(z.object({ epoch: z.number(), outcome: z.string() })),
});

/** A partition as the controller has it on disk. */
export type StoredPartition = z.infer<typeof recordSchema> & { readonly hasResult: boolean };

/** Reads what a controller, running or not, has written of a job: the file itself, not what its API says. */
export function storedPartitions(dataDirectory: string, jobId: string): StoredPartition[] {
  const database = new Database(path.join(dataDirectory, 'covey.db'), {
    readonly: true,
    fileMustExist: true,
  });
  try {
    const rows = database
      .prepare<[string], { record: string; hasResult: number }>(
        `SELECT record, result IS NOT NULL AS hasResult FROM partitions
         JOIN jobs ON partitions.id BETWEEN jobs.no * 10000000 AND jobs.no * 10000000 + 9999998
         WHERE jobs.id = ? ORDER BY partitions.id`,
      )
      .all(jobId);
    return rows.map(({ record, hasResult }) => ({
      ...recordSchema.parse(JSON.parse(record)),
      hasResult: hasResult === 1,
    }));
  } finally {
    database.close();
  }
}
