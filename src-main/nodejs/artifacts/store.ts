import { randomBytes } from 'node:crypto';
import { chmod, mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TreeManifest } from '#shared/domain/artifact.ts';
import { canonicalManifest, checkManifest, manifestFiles } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { syncDirectory } from '../backup/durable.ts';
import { namingFullDisk } from '../disk-full.ts';
import { createChunkIndex, type ChunkIndex } from './chunk-index.ts';
import { chunkCount, sha256 } from './digest.ts';

/**
 * Artifacts on one machine's disk, by content:
 *
 *   files/ab/<sha256>         each file once, whole and verified, read-only (it may be mapped into memory)
 *   chunks/ab/<sha256>        the digests of its chunks, 32 bytes each, where it has more than one
 *   trees/ab/<sha256>.json    manifests
 *   incoming/                 what is not whole yet
 *
 * What has a name here is whole: it was flushed before it got its name. Which of it is needed is for others to say.
 */
export interface ArtifactStore {
  readonly directory: string;
  /** Bytes of all files. */
  readonly usedBytes: number;
  /** Where a chunk can be copied from. */
  readonly chunks: ChunkIndex;
  files(): IterableIterator<[ArtifactId, StoredFile]>;
  file(id: ArtifactId): StoredFile | null;
  filePath(id: ArtifactId): string;
  /** null: it is not here, or not all of its files are. */
  tree(id: ArtifactId): Promise<TreeManifest | null>;
  /** null: it is not here, whatever of its files is. */
  manifest(id: ArtifactId): Promise<TreeManifest | null>;
  trees(): IterableIterator<ArtifactId>;
  /** When its manifest came, or came again; null: it is not here. */
  treeAddedAt(id: ArtifactId): number | null;
  /** Somebody counts on these files from now on: whatever of them is here counts as added now. */
  touch(files: Iterable<ArtifactId>): void;
  /** Of a stored file. */
  chunkList(id: ArtifactId): Promise<readonly ArtifactId[]>;
  /**
   * Makes a file that was written and verified part of the store, by renaming it. Flushed when it resolves; nothing
   * happens when it is here already.
   */
  adopt(path: string, id: ArtifactId, bytes: number, chunks: readonly ArtifactId[]): Promise<void>;
  /** After its files are here. */
  addManifest(manifest: TreeManifest): Promise<ArtifactId>;
  removeFile(id: ArtifactId): Promise<number>;
  removeTree(id: ArtifactId): Promise<void>;
  /** A new directory for files that become part of the store. */
  incoming(name?: string): Promise<string>;
  /**
   * Removes what lies in `incoming`, is over, and has not changed for so long: it was broken off and never went on.
   * @param isOver by name: nobody is at it now
   * @returns bytes that the rest of what is over takes on the disk
   */
  sweepIncoming(isOver: (name: string) => boolean, olderThanMs: number): Promise<number>;
}

export interface StoredFile {
  readonly bytes: number;
  /** When it came, or somebody has counted on it last (`touch`). */
  readonly addedAt: number;
}

/** A tree's manifest moves as one part: see artifact-protocol.ts. */
const maxManifestBytes = 64 * 1024 * 1024;
/** Files that are looked at at once when the store is opened. */
const looksAtOnce = 32;

/** @param directory created when it is missing */
export async function openArtifactStore(
  directory: string,
  now: () => number = Date.now,
): Promise<ArtifactStore> {
  const folders = { files: '', chunks: '', trees: '', incoming: '' };
  for (const name of Object.keys(folders) as (keyof typeof folders)[]) {
    folders[name] = join(directory, name);
    await mkdir(folders[name], { recursive: true, mode: 0o700 });
  }
  const files = new Map<ArtifactId, StoredFile>();
  /** With the time when its manifest came last. */
  const trees = new Map<ArtifactId, number>();
  const busy = new Map<ArtifactId, Promise<unknown>>();
  let usedBytes = 0;

  /** Coming and going of one artifact, one after the other: a removal never takes what has just come. */
  const inTurn = <T>(id: ArtifactId, work: () => Promise<T>): Promise<T> => {
    const turn = (busy.get(id) ?? Promise.resolve()).then(work);
    const over = turn
      .catch(() => undefined)
      .finally(() => {
        if (busy.get(id) === over) busy.delete(id);
      });
    busy.set(id, over);
    return turn;
  };

  const place = (folder: string, id: string, suffix = ''): string =>
    join(folder, id.slice(0, 2), `${id}${suffix}`);
  const filePath = (id: ArtifactId): string => place(folders.files, id);
  const chunkPath = (id: ArtifactId): string => place(folders.chunks, id);
  const treePath = (id: ArtifactId): string => place(folders.trees, id, '.json');

  await eachOf(await entriesOf(folders.files), async ({ name, path }) => {
    if (!isId(name)) return;
    const { size, mtimeMs } = await stat(path);
    files.set(name, { bytes: size, addedAt: mtimeMs });
    usedBytes += size;
  });
  await eachOf(await entriesOf(folders.trees), async ({ name, path }) => {
    const id = name.replace(/\.json$/, '');
    if (isId(id)) trees.set(id, (await stat(path)).mtimeMs);
  });
  // What was being written when the program ended has a name that nobody asks for again.
  for (const name of await readdir(folders.incoming)) {
    if (!/^(fetch|upload)-/.test(name))
      await rm(join(folders.incoming, name), { recursive: true, force: true });
  }

  const readChunkList = async (id: ArtifactId): Promise<readonly ArtifactId[]> => {
    const stored = files.get(id);
    if (!stored) throw missing(id);
    if (chunkCount(stored.bytes) <= 1) return stored.bytes === 0 ? [] : [id];
    const list = parseChunkList(await readFile(chunkPath(id)));
    if (list.length !== chunkCount(stored.bytes)) {
      throw new CoveyError('artifact_corrupt', `The list of chunks of ${id.slice(0, 12)} is damaged.`);
    }
    return list;
  };
  const chunks = createChunkIndex(filePath);
  await eachOf([...files], async ([id, { bytes }]) => {
    chunks.add(id, bytes, await readChunkList(id).catch(() => []));
  });

  /** The directory of a name, there also after a power cut. */
  const placeFor = async (path: string): Promise<string> => {
    const folder = dirname(path);
    const made = await mkdir(folder, { recursive: true, mode: 0o700 });
    if (made !== undefined) await syncDirectory(dirname(folder));
    return folder;
  };

  /** Written under another name first, flushed, then renamed. */
  const write = async (path: string, content: string | Uint8Array): Promise<void> => {
    const folder = await placeFor(path);
    const temporary = join(folders.incoming, `${randomBytes(8).toString('hex')}.tmp`);
    try {
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await handle.writeFile(content);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, path);
      await syncDirectory(folder);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw namingFullDisk(error, directory);
    }
  };

  const adopt = async (
    path: string,
    id: ArtifactId,
    bytes: number,
    list: readonly ArtifactId[],
  ): Promise<void> => {
    // Before the file: one without its list could not be sent to anybody.
    if (chunkCount(bytes) > 1) {
      await write(chunkPath(id), Buffer.from(list.join(''), 'hex'));
    }
    const target = filePath(id);
    const folder = await placeFor(target);
    // A copy may have a mode that forbids to write.
    await chmod(path, 0o600);
    const handle = await open(path, 'r+');
    try {
      await handle.datasync();
    } catch (error) {
      throw namingFullDisk(error, directory);
    } finally {
      await handle.close();
    }
    if (process.platform !== 'win32') await chmod(path, 0o400);
    await rename(path, target);
    await syncDirectory(folder);
    files.set(id, { bytes, addedAt: now() });
    usedBytes += bytes;
    chunks.add(id, bytes, list);
  };

  const manifest = async (id: ArtifactId): Promise<TreeManifest | null> => {
    if (!trees.has(id)) return null;
    const text = await readFile(treePath(id), 'utf8').catch(() => '');
    const checked = sha256(text) === id ? checkManifest(JSON.parse(text)) : null;
    if (checked?.ok) return checked.manifest;
    throw new CoveyError('artifact_corrupt', `The list of files of ${id.slice(0, 12)} is damaged.`);
  };

  return {
    directory,
    get usedBytes() {
      return usedBytes;
    },
    chunks,
    files: () => files.entries(),
    file: (id) => files.get(id) ?? null,
    filePath,
    trees: () => trees.keys(),
    treeAddedAt: (id) => trees.get(id) ?? null,
    touch(ids) {
      const addedAt = now();
      for (const id of ids) {
        const stored = files.get(id);
        if (stored) files.set(id, { ...stored, addedAt });
      }
    },
    manifest,
    async tree(id) {
      const found = await manifest(id);
      return found && manifestFiles(found).every((entry) => files.has(entry.sha256)) ? found : null;
    },
    chunkList: readChunkList,
    adopt: (path, id, bytes, list) =>
      inTurn(id, async () => {
        const stored = files.get(id);
        if (!stored) return adopt(path, id, bytes, list);
        files.set(id, { ...stored, addedAt: now() });
        return rm(path, { force: true });
      }),
    async addManifest(tree) {
      const text = canonicalManifest(tree);
      if (Buffer.byteLength(text) > maxManifestBytes) {
        throw new CoveyError('artifact_invalid', 'The paths of this tree are longer than 64 MiB together.');
      }
      const id = sha256(text);
      await inTurn(id, async () => {
        if (!trees.has(id)) await write(treePath(id), text);
        trees.set(id, now());
      });
      return id;
    },
    async removeFile(id) {
      const stored = files.get(id);
      if (!stored) return 0;
      files.delete(id);
      chunks.remove(id);
      usedBytes -= stored.bytes;
      await inTurn(id, async () => {
        await rm(filePath(id), { force: true });
        await rm(chunkPath(id), { force: true });
      });
      return stored.bytes;
    },
    async removeTree(id) {
      if (trees.delete(id)) await inTurn(id, () => rm(treePath(id), { force: true }));
    },
    async incoming(name = randomBytes(12).toString('hex')) {
      const path = join(folders.incoming, name);
      await mkdir(path, { recursive: true, mode: 0o700 });
      return path;
    },
    async sweepIncoming(isOver, olderThanMs) {
      const before = now() - olderThanMs;
      let leftBytes = 0;
      for (const name of await readdir(folders.incoming)) {
        if (!isOver(name)) continue;
        const path = join(folders.incoming, name);
        const found = await usageOf(path);
        if (found.changedAt <= before) await rm(path, { recursive: true, force: true });
        else leftBytes += found.bytes;
      }
      return leftBytes;
    },
  };
}

/** Digests of 32 bytes each. */
export function parseChunkList(bytes: Buffer): ArtifactId[] {
  const list: ArtifactId[] = [];
  for (let at = 0; at + 32 <= bytes.length; at += 32) {
    list.push(bytes.toString('hex', at, at + 32) as ArtifactId);
  }
  return list;
}

async function eachOf<T>(items: readonly T[], look: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await look(item);
  };
  await Promise.all(Array.from({ length: Math.min(looksAtOnce, items.length) }, lane));
}

/** Of a file, or a directory of files; files that are being filled have holes. Nothing when it is gone. */
async function usageOf(path: string): Promise<{ readonly bytes: number; readonly changedAt: number }> {
  const found = await stat(path).catch(() => null);
  if (!found) return { bytes: 0, changedAt: -Infinity };
  if (!found.isDirectory()) return { bytes: found.blocks * 512, changedAt: found.mtimeMs };
  let bytes = 0;
  let changedAt = found.mtimeMs;
  for (const name of await readdir(path).catch(() => [])) {
    const inside = await stat(join(path, name)).catch(() => null);
    bytes += (inside?.blocks ?? 0) * 512;
    changedAt = Math.max(changedAt, inside?.mtimeMs ?? 0);
  }
  return { bytes, changedAt };
}

async function entriesOf(folder: string): Promise<{ name: string; path: string }[]> {
  const found: { name: string; path: string }[] = [];
  for (const part of await readdir(folder)) {
    if (!/^[0-9a-f]{2}$/.test(part)) continue;
    for (const name of await readdir(join(folder, part)))
      found.push({ name, path: join(folder, part, name) });
  }
  return found;
}

function isId(name: string): name is ArtifactId {
  return /^[0-9a-f]{64}$/.test(name);
}

function missing(id: ArtifactId): CoveyError {
  return new CoveyError('artifact_not_found', `The file ${id.slice(0, 12)} is not here.`);
}
