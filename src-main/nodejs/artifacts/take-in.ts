import { constants } from 'node:fs';
import { copyFile, lstat, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { makeManifest, manifestBytes, type TreeFile } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import { namingFullDisk } from '../disk-full.ts';
import type { Hasher } from './hasher.ts';
import type { ArtifactStore } from './store.ts';
import { walkTree } from './walk-tree.ts';

/**
 * Copies a file of this machine into the store. The copy is what is hashed: what happens to the original meanwhile
 * does not matter.
 * @param room is called with its size before anything is copied; what it rejects with is passed on
 * @throws CoveyError `artifact_invalid` when it is no regular file
 */
export async function takeInFile(
  store: ArtifactStore,
  hasher: Hasher,
  path: string,
  signal: AbortSignal,
  room?: (bytes: number) => Promise<void>,
): Promise<ArtifactStake> {
  const [stake] = await takeInFiles(store, hasher, [path], signal, room);
  if (!stake) throw new CoveyError('internal_error', 'A file was taken in without a result.');
  return stake;
}

/** A directory and all that it holds; see `walkTree` for what it may not. */
export async function takeInTree(
  store: ArtifactStore,
  hasher: Hasher,
  directory: string,
  signal: AbortSignal,
  room?: (bytes: number) => Promise<void>,
): Promise<ArtifactStake> {
  const walked = await walkTree(directory);
  const stakes = await takeInFiles(
    store,
    hasher,
    walked.files.map(({ absolute }) => absolute),
    signal,
    room,
  );
  const files = walked.files.map(({ path, executable }, index): TreeFile => {
    const stake = stakes[index] as ArtifactStake;
    return { path, executable, bytes: stake.bytes, sha256: stake.id };
  });
  const made = makeManifest(files, walked.directories);
  if (!made.ok)
    throw new CoveyError('artifact_invalid', `This is no tree: ${made.problem}.`, { field: 'path' });
  const id = await store.addManifest(made.manifest);
  return { id, kind: 'tree', bytes: manifestBytes(made.manifest) };
}

async function takeInFiles(
  store: ArtifactStore,
  hasher: Hasher,
  paths: readonly string[],
  signal: AbortSignal,
  room: (bytes: number) => Promise<void> = async () => undefined,
): Promise<ArtifactStake[]> {
  let totalBytes = 0;
  for (const path of paths) {
    const found = await lstat(path).catch(() => null);
    if (!found?.isFile()) {
      throw new CoveyError('artifact_invalid', `${path} is no regular file.`, { field: 'path' });
    }
    totalBytes += found.size;
  }
  await room(totalBytes);
  const folder = await store.incoming();
  try {
    const copies: string[] = [];
    for (const [index, path] of paths.entries()) {
      if (signal.aborted) throw CoveyError.from(signal.reason);
      const copy = join(folder, String(index));
      await copyFile(path, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      copies.push(copy);
    }
    const digests = await hasher.digest(copies, signal);
    const stakes: ArtifactStake[] = [];
    for (const [index, { sha256: id, bytes, chunks }] of digests.entries()) {
      await store.adopt(copies[index] as string, id, bytes, chunks);
      stakes.push({ id, kind: 'file', bytes });
    }
    return stakes;
  } catch (error) {
    throw namingFullDisk(error, store.directory);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
