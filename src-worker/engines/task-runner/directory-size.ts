import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const maxEntries = 200_000;

/**
 * Bytes of the files below some directories, as they read: holes count. Links are not followed. Infinity when there
 * are too many entries to count.
 */
export async function directorySize(directories: readonly string[]): Promise<number> {
  let bytes = 0;
  let entries = 0;
  const queue = [...directories];
  for (let directory = queue.pop(); directory !== undefined; directory = queue.pop()) {
    const children = await readdir(directory, { withFileTypes: true }).catch(() => []);
    entries += children.length;
    if (entries > maxEntries) return Infinity;
    for (const child of children) {
      const path = join(directory, child.name);
      if (child.isDirectory()) queue.push(path);
      else if (child.isFile()) {
        const found = await lstat(path).catch(() => null);
        if (found) bytes += found.size;
      }
    }
  }
  return bytes;
}
