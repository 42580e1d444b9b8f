import type { Stats } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/**
 * Makes a folder, and those above it that are missing, level by level. Node's own recursive `mkdir` never ends, and
 * cannot be interrupted, where a file system answers ENOENT for a folder whose parent is there, as /proc does and a
 * broken network mount may: it goes up and down between the two. For every place that people choose.
 * @param mode of those that are made
 * @throws as `mkdir`, with the `path` that could not be made
 */
export async function makeFolders(path: string, mode = 0o777): Promise<void> {
  const target = resolve(path);
  if ((await found(target))?.isDirectory() === true) return;
  const missing = [target];
  // What is there and no folder is for `mkdir` to refuse.
  for (let at = dirname(target); (await found(at)) === null && dirname(at) !== at; at = dirname(at)) {
    missing.push(at);
  }
  for (const folder of missing.toReversed()) {
    await mkdir(folder, { mode }).catch(async (error: NodeJS.ErrnoException) => {
      // Another one may have made it meanwhile.
      const there = error.code === 'EEXIST' ? await found(folder) : null;
      if (there?.isDirectory() !== true) throw error;
    });
  }
}

/** What a link leads to. */
async function found(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}
