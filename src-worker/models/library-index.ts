import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { modelInfoSchema } from '#shared/domain/model-info.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { libraryModelSchema, type LibraryModel } from '#shared/protocol/requests.ts';
import { writeAtomically } from './files.ts';
import { inspectModelFile } from './inspect.ts';
import { checkModelName } from './names.ts';
import { parseShardName } from './shards.ts';

const INDEX_BYTES = 64 * 1024 * 1024;

/** One model in `index.json`; its files lie in the directory of its name. */
export const indexEntrySchema = z.object({
  name: z.string().refine((name) => checkModelName(name).ok),
  /** In shard order, names only. */
  files: z
    .array(z.string().regex(/^[^/\\]{1,255}$/))
    .min(1)
    .max(1000),
  fileBytes: z.number().int().nonnegative(),
  addedAt: z.number().int().nonnegative(),
  source: libraryModelSchema.shape.source,
  hash: z.string().max(128),
  info: modelInfoSchema,
});
export type IndexEntry = z.infer<typeof indexEntrySchema>;

const indexSchema = z.object({ version: z.literal(1), models: z.array(indexEntrySchema).max(4096) });

const fileName = 'index.json';

export function toLibraryModel(directory: string, entry: IndexEntry): LibraryModel {
  const { name, fileBytes, addedAt, source, info } = entry;
  return { name, path: join(directory, name, entry.files[0] as string), fileBytes, addedAt, source, info };
}

export async function writeIndex(directory: string, entries: Iterable<IndexEntry>): Promise<void> {
  await writeAtomically(join(directory, fileName), JSON.stringify({ version: 1, models: [...entries] }));
}

/**
 * The index as the files on disk bear it out. Entries whose files are gone are dropped, directories it does not
 * know are read in; a damaged or missing index is rebuilt from the files alone (sources are lost then).
 * @returns the entries by name, and whether they differ from what was written
 */
export async function readIndex(
  directory: string,
  now: number,
  logger: Logger,
): Promise<{ entries: Map<string, IndexEntry>; changed: boolean }> {
  const written = await readWritten(directory, logger);
  const entries = new Map<string, IndexEntry>();
  const known = new Map((written ?? []).map((entry) => [entry.name, entry]));
  const found = (await readdir(directory, { withFileTypes: true }))
    .filter((item) => item.isDirectory() && checkModelName(item.name).ok)
    .map((item) => item.name);
  for (const name of found.sort()) {
    const entry = known.get(name);
    const files = (await readdir(join(directory, name))).filter((file) => /\.gguf$/i.test(file));
    const complete = entry !== undefined && entry.files.every((file) => files.includes(file));
    const current = complete ? entry : await readModel(directory, name, files, now, logger);
    if (current !== null) entries.set(name, current);
  }
  for (const name of known.keys()) {
    if (!entries.has(name)) logger.warn('model is no longer in the library', { model: name });
  }
  const changed =
    written === null ||
    written.length !== entries.size ||
    written.some((entry) => entries.get(entry.name) !== entry);
  return { entries, changed };
}

async function readWritten(directory: string, logger: Logger): Promise<IndexEntry[] | null> {
  const path = join(directory, fileName);
  try {
    const text = await readFile(path, 'utf8');
    if (text.length > INDEX_BYTES) throw new Error('it is too long');
    return indexSchema.parse(JSON.parse(text)).models;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    const reason =
      thrown instanceof z.ZodError ? (thrown.issues[0]?.message ?? '') : (thrown as Error).message;
    logger.warn('model index is damaged, rebuilding it from the files', { path, reason });
    return null;
  }
}

async function readModel(
  directory: string,
  name: string,
  files: readonly string[],
  now: number,
  logger: Logger,
): Promise<IndexEntry | null> {
  const first = [...files].sort().find((file) => (parseShardName(file)?.index ?? 1) === 1);
  if (first === undefined) return null;
  const model = await inspectModelFile(join(directory, name, first));
  if (!model.ok) {
    logger.warn('model in the library cannot be read', { model: name, reason: model.error.message });
    return null;
  }
  const { files: parts, info, hash } = model.value;
  return {
    name,
    files: parts.map((part) => part.path.slice(join(directory, name).length + 1)),
    fileBytes: info.fileBytes,
    addedAt: now,
    source: '',
    hash,
    info,
  };
}
