import { ARTIFACT_MAX_TREE_ENTRIES, treePathProblem } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';

export interface UnpackLimits {
  readonly entries: number;
  /** Of all files, unpacked. */
  readonly bytes: number;
  /** Unpacked bytes per packed byte, once there are more than `ratioFromBytes`. */
  readonly ratio: number;
  readonly ratioFromBytes: number;
}

export const defaultUnpackLimits: UnpackLimits = {
  entries: ARTIFACT_MAX_TREE_ENTRIES,
  bytes: 2 ** 40,
  ratio: 200,
  ratioFromBytes: 64 * 1024 * 1024,
};

/** Judges an archive's entries and bytes as they come, before any of it is written. */
export interface UnpackGuard {
  /**
   * @param name as the archive has it
   * @returns the path below the target; null: it is the archive's own root
   * @throws CoveyError `artifact_invalid`
   */
  entry(name: string, type: 'file' | 'directory' | 'other'): string | null;
  /** Bytes of a file. @throws CoveyError `artifact_invalid` when they are too many */
  unpacked(bytes: number): void;
  /**
   * Bytes of files and of what is between them.
   * @param packedSoFar bytes of the archive that they came from, none of them counted twice
   * @throws CoveyError `artifact_invalid` when they are too many for that
   */
  inflated(bytes: number, packedSoFar: number): void;
}

export function createUnpackGuard(archive: string, limits: UnpackLimits): UnpackGuard {
  let entries = 0;
  let total = 0;
  let inflatedBytes = 0;
  /** Without regard to case, with the folders that a path implies. */
  const seen = new Map<string, { readonly path: string; readonly type: 'file' | 'directory' }>();
  const refuse = (why: string): CoveyError =>
    new CoveyError('artifact_invalid', `${archive} is not unpacked: ${why}.`, { field: 'path' });

  return {
    entry(name, type) {
      entries += 1;
      if (entries > limits.entries) throw refuse(`it has more than ${limits.entries} entries`);
      const shown = JSON.stringify(name.slice(0, 200));
      if (type === 'other') throw refuse(`${shown} is a link or a device, which no tree may have`);
      const path = name.replace(/^(\.\/)+/, '').replace(/\/+$/, '');
      if (type === 'directory' && (path === '' || path === '.')) return null;
      const problem = treePathProblem(path);
      if (problem !== null) throw refuse(`${shown} ${problem}: no tree may have it`);
      if (path.length > 1024) throw refuse(`${shown} is a path of more than 1024 characters`);
      const parts = path.split('/');
      for (let count = 1; count <= parts.length; count += 1) {
        const at = parts.slice(0, count).join('/');
        const key = at.normalize('NFC').toLowerCase();
        const before = seen.get(key);
        const last = count === parts.length;
        if (before && last && (before.type === 'file' || type === 'file'))
          throw refuse(`${shown} is there twice`);
        if (before?.type === 'file') throw refuse(`${shown} is below a file`);
        if (before && before.path !== at) throw refuse(`${shown} differs from another name in case only`);
        if (!before) seen.set(key, { path: at, type: last ? type : 'directory' });
      }
      if (seen.size > limits.entries) throw refuse(`it has more than ${limits.entries} entries`);
      return path;
    },
    unpacked(bytes) {
      total += bytes;
      if (total > limits.bytes) throw refuse(`it unpacks to more than ${limits.bytes} bytes`);
    },
    inflated(bytes, packedSoFar) {
      inflatedBytes += bytes;
      if (inflatedBytes > limits.ratioFromBytes && inflatedBytes > packedSoFar * limits.ratio) {
        throw refuse(
          `it unpacks to more than ${limits.ratio} times its own size, as files do that are made to fill disks`,
        );
      }
    },
  };
}
