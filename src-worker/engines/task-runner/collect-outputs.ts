import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { MadeOutput } from '#shared/host/task-runner.ts';

/**
 * Outputs that a program left below its output directory, after everything of it has ended. Links are refused, not
 * followed, wherever they stand: one may lead anywhere on this machine.
 * @throws CoveyError `task_failed`
 */
export async function collectOutputs(
  directory: string,
  wanted: readonly { readonly path: string; readonly optional: boolean }[],
): Promise<MadeOutput[]> {
  const made: MadeOutput[] = [];
  for (const { path, optional } of wanted) {
    const kind = await kindOf(directory, path);
    if (kind === null) {
      if (optional) continue;
      throw new CoveyError('task_failed', `the output ${path} was not made`);
    }
    const whole = join(directory, path);
    if (kind === 'tree') await refuseLinks(whole, path);
    made.push({ name: path, path: whole, kind });
  }
  return made;
}

async function kindOf(directory: string, path: string): Promise<MadeOutput['kind'] | null> {
  let place = directory;
  let kind: MadeOutput['kind'] | null = null;
  for (const part of path.split('/')) {
    place = join(place, part);
    const found = await lstat(place).catch(() => null);
    if (!found) return null;
    kind = kindOfEntry(found, path);
  }
  return kind;
}

async function refuseLinks(directory: string, name: string): Promise<void> {
  const queue = [{ directory, name }];
  for (let next = queue.pop(); next; next = queue.pop()) {
    for (const child of await readdir(next.directory, { withFileTypes: true })) {
      const below = { directory: join(next.directory, child.name), name: `${next.name}/${child.name}` };
      if (kindOfEntry(child, below.name) === 'tree') queue.push(below);
    }
  }
}

function kindOfEntry(
  entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean },
  name: string,
): MadeOutput['kind'] {
  if (entry.isDirectory()) return 'tree';
  if (entry.isFile()) return 'file';
  const what = entry.isSymbolicLink() ? 'a link' : 'neither a file nor a directory';
  throw new CoveyError('task_failed', `the output ${name.slice(0, 512)} is ${what}, which is not taken`);
}
