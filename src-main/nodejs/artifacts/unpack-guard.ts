import { ARTIFACT_MAX_TREE_ENTRIES, isSafeTreePath } from '#shared/domain/artifact.ts';
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
  /** @throws CoveyError `artifact_invalid` when it is too much, or too much for what was read */
  unpacked(bytes: number, packedSoFar: number): void;
}

export function createUnpackGuard(archive: string, limits: UnpackLimits): UnpackGuard {
  let entries = 0;
  let total = 0;
  const seen = new Map<string, 'file' | 'directory'>();
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
      if (path.length > 1024 || !isSafeTreePath(path)) {
        throw refuse(`${shown} leads out of the folder or is a name that no tree may have`);
      }
      const key = path.normalize('NFC').toLowerCase();
      const before = seen.get(key);
      if (before === 'file' || (before !== undefined && type === 'file'))
        throw refuse(`${shown} is there twice`);
      for (let end = key.indexOf('/'); end >= 0; end = key.indexOf('/', end + 1)) {
        if (seen.get(key.slice(0, end)) === 'file') throw refuse(`${shown} is below a file`);
        seen.set(key.slice(0, end), 'directory');
      }
      seen.set(key, type);
      return path;
    },
    unpacked(bytes, packedSoFar) {
      total += bytes;
      if (total > limits.bytes) throw refuse(`it unpacks to more than ${limits.bytes} bytes`);
      if (total > limits.ratioFromBytes && total > packedSoFar * limits.ratio) {
        throw refuse(
          `it unpacks to more than ${limits.ratio} times its own size, as files do that are made to fill disks`,
        );
      }
    },
  };
}
