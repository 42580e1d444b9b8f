import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ARTIFACT_MAX_TREE_ENTRIES, treePathProblem } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';

export interface WalkedTree {
  /** `path` with `/`, relative; `absolute` to read it. */
  readonly files: readonly {
    readonly path: string;
    readonly absolute: string;
    readonly bytes: number;
    readonly executable: boolean;
  }[];
  readonly directories: readonly string[];
}

/**
 * What a directory holds, without following any link.
 * @throws CoveyError `artifact_invalid` naming the first thing that no tree may have: a link, a device, a name that
 *   is not safe everywhere, more entries than a tree may have
 */
export async function walkTree(directory: string): Promise<WalkedTree> {
  const root = await lstat(directory).catch((error: unknown) => {
    throw invalid(
      directory,
      (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'is not there' : String(error),
    );
  });
  if (!root.isDirectory()) throw invalid(directory, 'is no directory');
  const files: WalkedTree['files'][number][] = [];
  const directories: string[] = [];
  const waiting: string[] = [''];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const { name } of await readdir(join(directory, at), { withFileTypes: true })) {
      const path = at === '' ? name : `${at}/${name}`;
      const problem = treePathProblem(path);
      if (problem !== null) throw invalid(path, `${problem}: no tree may have it`);
      if (path.length > 1024) throw invalid(path, 'is a path of more than 1024 characters');
      if (files.length + directories.length >= ARTIFACT_MAX_TREE_ENTRIES) {
        throw invalid(directory, `has more than ${ARTIFACT_MAX_TREE_ENTRIES} entries`);
      }
      const absolute = join(directory, path);
      const found = await lstat(absolute);
      if (found.isDirectory()) {
        directories.push(path);
        waiting.push(path);
      } else if (found.isFile()) {
        files.push({ path, absolute, bytes: found.size, executable: (found.mode & 0o111) !== 0 });
      } else {
        throw invalid(
          path,
          found.isSymbolicLink() ? 'is a link, which no tree may have' : 'is no regular file',
        );
      }
    }
  }
  return { files, directories };
}

function invalid(path: string, what: string): CoveyError {
  return new CoveyError('artifact_invalid', `${JSON.stringify(path.slice(0, 300))} ${what}.`, {
    field: 'path',
  });
}
