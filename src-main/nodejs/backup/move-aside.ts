import { mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { naming, stamp, syncDirectory } from './durable.ts';

/**
 * Moves what of `names` is in the directory into a new one there, `replaced-<time>`, so that it can be taken back.
 * @returns that directory; null: there was nothing to move
 */
export async function moveAside(
  directory: string,
  names: readonly string[],
  now: number,
): Promise<string | null> {
  const present = new Set(await readdir(directory));
  const moving = names.filter((name) => present.has(name));
  if (moving.length === 0) return null;
  const base = join(directory, `replaced-${stamp(now)}`);
  let target = base;
  for (let count = 2; present.has(target.slice(directory.length + 1)); count += 1)
    target = `${base}-${count}`;
  await naming(target, 'data', async () => {
    await mkdir(target, { mode: 0o700 });
    for (const name of moving) await rename(join(directory, name), join(target, name));
    await syncDirectory(target);
    await syncDirectory(directory);
  });
  return target;
}
