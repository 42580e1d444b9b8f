import { chmod, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Removes a directory that programs of others have written to, also where they have closed parts of it to everybody.
 * Rejects when something of it is still there.
 */
export async function removeDirectory(path: string): Promise<void> {
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 2 });
  try {
    await remove();
  } catch {
    await openUp(path);
    await remove();
  }
}

/** Links are not followed: `readdir` tells them from directories. */
async function openUp(root: string): Promise<void> {
  const queue = [root];
  for (let directory = queue.pop(); directory !== undefined; directory = queue.pop()) {
    await chmod(directory, 0o700).catch(() => undefined);
    const children = await readdir(directory, { withFileTypes: true }).catch(() => []);
    for (const child of children) if (child.isDirectory()) queue.push(join(directory, child.name));
  }
}
