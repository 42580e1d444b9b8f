import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { nodeIdSchema } from '#shared/lib/ids.ts';

/**
 * What makes a node that node, as names in its data directory. Not in it: models and logs (large, and to be had
 * again), the journal (of processes of this computer), and tokens of its API (made anew).
 */
export const databaseName = 'covey.db';
const single = ['identity/key.pem', 'identity/cert.pem', 'config.json', 'cluster-secret', 'membership.json'];
const lanDirectory = 'lan';
const maxLanFiles = 32;
const lanName = /^lan\/[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Top-level names that a restore replaces; SQLite's own two belong to the database. */
export const replacedNames = [
  databaseName,
  `${databaseName}-wal`,
  `${databaseName}-shm`,
  'config.json',
  'cluster-secret',
  'membership.json',
  lanDirectory,
  // Last: what is there with it is a node.
  'identity',
] as const;

export const maxFileBytes = 1024 * 1024;
export const maxDatabaseBytes = 1024 * 1024 * 1024;
export const maxManifestBytes = 64 * 1024;

const pathSchema = z
  .string()
  .max(128)
  .refine(
    (path) => path === databaseName || single.includes(path) || lanName.test(path),
    'is not part of a backup',
  );

export const manifestSchema = z.object({
  /** Of the program that made it. */
  version: z.string().max(64),
  nodeId: nodeIdSchema,
  createdAt: z.number().int().nonnegative(),
  /** In the order in which their bytes follow. */
  files: z
    .array(z.object({ path: pathSchema, bytes: z.number().int().nonnegative().max(maxDatabaseBytes) }))
    .min(2)
    .max(64)
    .refine((files) => new Set(files.map(({ path }) => path)).size === files.length, 'names a file twice')
    .refine(
      (files) => files.every(({ path, bytes }) => path === databaseName || bytes <= maxFileBytes),
      'has a file that is too large',
    )
    .refine(
      (files) =>
        ['identity/key.pem', 'identity/cert.pem'].every((path) => files.some((one) => one.path === path)),
      'has no identity',
    ),
});
export type Manifest = z.infer<typeof manifestSchema>;

/** The small files that may be there, relative and with `/`. */
export async function smallFiles(dataDirectory: string): Promise<string[]> {
  const entries = await readdir(join(dataDirectory, lanDirectory), { withFileTypes: true }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    },
  );
  const lan = entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.tmp'))
    .map((entry) => `${lanDirectory}/${entry.name}`)
    .filter((path) => lanName.test(path));
  return [...single, ...lan.sort().slice(0, maxLanFiles)];
}
