import { randomBytes } from 'node:crypto';
import { chmod, mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
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
}

export interface StoredFile {
  readonly bytes: number;
  readonly addedAt: number;
}

/** @param directory created when it is missing */
export async function openArtifactStore(directory: string): Promise<ArtifactStore> {
  const folders = { files: '', chunks: '', trees: '', incoming: '' };
  for (const name of Object.keys(folders) as (keyof typeof folders)[]) {
    folders[name] = join(directory, name);
    await mkdir(folders[name], { recursive: true, mode: 0o700 });
  }
  const files = new Map<ArtifactId, StoredFile>();
  const trees = new Set<ArtifactId>();
  const adopting = new Map<ArtifactId, Promise<void>>();
  let usedBytes = 0;

  const place = (folder: string, id: string, suffix = ''): string =>
    join(folder, id.slice(0, 2), `${id}${suffix}`);
  const filePath = (id: ArtifactId): string => place(folders.files, id);
  const chunkPath = (id: ArtifactId): string => place(folders.chunks, id);
  const treePath = (id: ArtifactId): string => place(folders.trees, id, '.json');

  for (const { name, path } of await entriesOf(folders.files)) {
    if (!isId(name)) continue;
    const { size, mtimeMs } = await stat(path);
    files.set(name, { bytes: size, addedAt: mtimeMs });
    usedBytes += size;
  }
  for (const { name } of await entriesOf(folders.trees)) {
    const id = name.replace(/\.json$/, '');
    if (isId(id)) trees.add(id);
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
  for (const [id, { bytes }] of files) {
    const list = await readChunkList(id).catch(() => []);
    chunks.add(id, bytes, list);
  }

  /** Written under another name first, flushed, then renamed. */
  const write = async (path: string, content: string | Uint8Array): Promise<void> => {
    await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
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
    if (chunkCount(bytes) > 1) {
      await write(chunkPath(id), Buffer.from(list.join(''), 'hex'));
    }
    const target = filePath(id);
    await mkdir(join(target, '..'), { recursive: true, mode: 0o700 });
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
    await syncDirectory(join(target, '..'));
    files.set(id, { bytes, addedAt: Date.now() });
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
    trees: () => trees.values(),
    manifest,
    async tree(id) {
      const found = await manifest(id);
      return found && manifestFiles(found).every((entry) => files.has(entry.sha256)) ? found : null;
    },
    chunkList: readChunkList,
    async adopt(path, id, bytes, list) {
      const running = adopting.get(id);
      if (running) await running.catch(() => undefined);
      if (files.has(id)) {
        await rm(path, { force: true });
        return;
      }
      const work = adopt(path, id, bytes, list);
      adopting.set(id, work);
      await work.finally(() => adopting.delete(id));
    },
    async addManifest(tree) {
      const text = canonicalManifest(tree);
      const id = sha256(text);
      if (!trees.has(id)) await write(treePath(id), text);
      trees.add(id);
      return id;
    },
    async removeFile(id) {
      const stored = files.get(id);
      if (!stored) return 0;
      files.delete(id);
      chunks.remove(id);
      usedBytes -= stored.bytes;
      await rm(filePath(id), { force: true });
      await rm(chunkPath(id), { force: true });
      return stored.bytes;
    },
    async removeTree(id) {
      trees.delete(id);
      await rm(treePath(id), { force: true });
    },
    async incoming(name = randomBytes(12).toString('hex')) {
      const path = join(folders.incoming, name);
      await mkdir(path, { recursive: true, mode: 0o700 });
      return path;
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
