import { treeManifestSchema, type TreeEntry, type TreeManifest } from './artifact.ts';

/** A tree's entries before they are in order. */
export type TreeFile = Omit<Extract<TreeEntry, { type: 'file' }>, 'type'>;

/**
 * The one manifest of a tree: every directory that a path names is an entry, in code-unit order of paths.
 * @returns a sentence when there is no such tree: an unsafe path, a path twice (also without regard to case), a
 *   file where a directory is needed, too many entries
 */
export function makeManifest(
  files: readonly TreeFile[],
  directories: readonly string[],
): { readonly ok: true; readonly manifest: TreeManifest } | { readonly ok: false; readonly problem: string } {
  const entries = new Map<string, TreeEntry>();
  for (const { path, bytes, sha256, executable } of files) {
    if (entries.has(path)) return { ok: false, problem: `${path}: is there twice` };
    entries.set(path, { type: 'file', path, bytes, sha256, executable });
  }
  for (const path of [...directories, ...files.flatMap((file) => parent(file.path) ?? [])]) {
    for (let at: string | null = path; at !== null; at = parent(at)) {
      const there = entries.get(at);
      if (there?.type === 'file') return { ok: false, problem: `${at}: is a file and a directory` };
      if (there) break;
      entries.set(at, { type: 'directory', path: at });
    }
  }
  const sorted = [...entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  return checkManifest({ version: 1, entries: sorted });
}

/** A manifest from outside: valid, in order, and without what `makeManifest` refuses. */
export function checkManifest(
  value: unknown,
): { readonly ok: true; readonly manifest: TreeManifest } | { readonly ok: false; readonly problem: string } {
  const parsed = treeManifestSchema.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const index = issue?.path[1];
    const path = typeof index === 'number' ? pathAt(value, index) : null;
    return { ok: false, problem: `${path ?? issue?.path.join('.') ?? ''}: ${issue?.message ?? 'invalid'}` };
  }
  const folded = new Set<string>();
  const directories = new Set<string>();
  let last = '';
  for (const { type, path } of parsed.data.entries) {
    if (path <= last) return { ok: false, problem: `${path}: is not in order` };
    last = path;
    const key = path.normalize('NFC').toLowerCase();
    if (folded.has(key)) return { ok: false, problem: `${path}: differs from another path in case only` };
    folded.add(key);
    const above = parent(path);
    if (above !== null && !directories.has(above)) {
      return { ok: false, problem: `${path}: its directory is missing` };
    }
    if (type === 'directory') directories.add(path);
  }
  return { ok: true, manifest: parsed.data };
}

/** What a tree's id is the SHA-256 of, as UTF-8. */
export function canonicalManifest({ version, entries }: TreeManifest): string {
  return JSON.stringify({
    version,
    entries: entries.map((entry) =>
      entry.type === 'directory'
        ? { type: entry.type, path: entry.path }
        : {
            type: entry.type,
            path: entry.path,
            bytes: entry.bytes,
            sha256: entry.sha256,
            executable: entry.executable,
          },
    ),
  });
}

/** Bytes of all files of a tree. */
export function manifestBytes(manifest: TreeManifest): number {
  return manifest.entries.reduce((sum, entry) => sum + (entry.type === 'file' ? entry.bytes : 0), 0);
}

export function manifestFiles(manifest: TreeManifest): Extract<TreeEntry, { type: 'file' }>[] {
  return manifest.entries.filter((entry) => entry.type === 'file');
}

function parent(path: string): string | null {
  const end = path.lastIndexOf('/');
  return end < 0 ? null : path.slice(0, end);
}

function pathAt(value: unknown, index: number): string | null {
  const entry = (value as { entries?: { path?: unknown }[] } | null)?.entries?.[index];
  return typeof entry?.path === 'string' ? JSON.stringify(entry.path.slice(0, 200)) : null;
}
