import { constants } from 'node:fs';
import { chmod, copyFile, lstat, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactStore } from './store.ts';

/**
 * A copy of a stored file or tree at `target`, which must not exist; its parent must. Where the file system can,
 * the copy shares its blocks until one of the two is written. Leaves nothing behind when it fails.
 */
export async function materialise(
  store: ArtifactStore,
  stake: ArtifactStake,
  target: string,
  signal: AbortSignal,
): Promise<void> {
  if (await lstat(target).catch(() => null)) {
    throw new CoveyError('artifact_invalid', `${target} exists already.`, { field: 'path' });
  }
  try {
    if (stake.kind === 'file') {
      await copyOut(store.filePath(stake.id), target, false);
      return;
    }
    const manifest = await store.tree(stake.id);
    if (!manifest) throw new CoveyError('artifact_not_found', `${stake.id.slice(0, 12)} is not here.`);
    await mkdir(target, { mode: 0o700 });
    // Parents come before what is in them: paths are in order and every directory is an entry.
    for (const entry of manifest.entries) {
      if (signal.aborted) throw CoveyError.from(signal.reason);
      const path = join(target, ...entry.path.split('/'));
      if (entry.type === 'directory') await mkdir(path, { mode: 0o700 });
      else await copyOut(store.filePath(entry.sha256), path, entry.executable);
    }
  } catch (error) {
    await rm(target, { recursive: true, force: true }).catch(() => undefined);
    throw error;
  }
}

async function copyOut(from: string, to: string, executable: boolean): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  await chmod(to, executable ? 0o700 : 0o600);
}
