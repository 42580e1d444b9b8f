import { CoveyError } from '#shared/errors.ts';
import { err, ok, type Result } from '#shared/lib/result.ts';
import { parseShardName, shardNames } from '../shards.ts';

/** `hf:owner/repo` or `hf:owner/repo/path/to/file.gguf`. */
export interface HubSource {
  readonly repository: string;
  /** null: the best file of the repository. */
  readonly file: string | null;
}

/** A name of the hub: letters, digits, `_`, and single `.` or `-` between them. */
const namePattern = /^(?=.{1,96}$)[A-Za-z0-9_]+(?:[.-]+[A-Za-z0-9_]+)*$/;
const filePattern = /^[^\\\u0000-\u001f]{1,512}$/;

export function parseHubSource(source: string): Result<HubSource, CoveyError> {
  const refuse = (why: string): Result<never, CoveyError> =>
    err(
      new CoveyError(
        'invalid_request',
        `"${source.slice(0, 200)}" ${why}; write hf:owner/repo/file.gguf or hf:owner/repo`,
        {
          field: 'source',
        },
      ),
    );
  if (!source.startsWith('hf:')) return refuse('is no hub source');
  const [owner = '', name = '', ...path] = source.slice(3).split('/');
  if (!namePattern.test(owner) || !namePattern.test(name)) return refuse('names no repository');
  if (path.length === 0) return ok({ repository: `${owner}/${name}`, file: null });
  const file = path.join('/');
  if (!filePattern.test(file) || path.some((part) => part === '' || part === '.' || part === '..')) {
    return refuse('names no file');
  }
  if (!/\.gguf$/i.test(file)) return refuse('names a file that is not a .gguf');
  return ok({ repository: `${owner}/${name}`, file });
}

/** Quantisations in the order in which they are taken when nobody says which. */
const preferred = [
  ...['Q4_K_M', 'Q4_K_S', 'Q4_0', 'IQ4_NL', 'IQ4_XS', 'MXFP4'],
  ...['Q5_K_M', 'Q5_K_S', 'Q6_K', 'Q8_0', 'Q3_K_M', 'BF16', 'F16', 'F32'],
];

/** Files beside a model that are no model: projectors, importance matrices, drafts. */
const companions = /(^|[-_./])(mmproj|imatrix|mtp-|eagle3-|dflash-|dspark-)/i;

export interface RepositoryFile {
  readonly path: string;
  readonly bytes: number;
}

/**
 * The files to fetch of a repository when only it is named, in shard order; empty when it has no model.
 *
 * 1. Only `.gguf` files count, companions (mmproj, imatrix, draft models) and incomplete sets of shards do not.
 * 2. If one model is left, it.
 * 3. Else the first whose name has Q4_K_M, then the others in `preferred`: four bits are a fair trade for most.
 * 4. Else the smallest.
 * Of equals the one nearest to the root, then the first by name.
 */
export function bestModel(files: readonly RepositoryFile[]): readonly string[] {
  const bytes = new Map(files.map((file) => [file.path, file.bytes]));
  const models = files
    .map((file) => file.path)
    .filter((path) => /\.gguf$/i.test(path) && !companions.test(path))
    .filter((path) => (parseShardName(path)?.index ?? 1) === 1)
    .map((path) => modelFiles(path))
    .filter((parts) => parts.every((part) => bytes.has(part)))
    .map((parts) => ({
      parts,
      bytes: parts.reduce((sum, part) => sum + (bytes.get(part) ?? 0), 0),
      rank: quantisationRank(parts[0] as string),
    }));
  models.sort((a, b) => {
    if (a.rank !== b.rank) return a.rank - b.rank;
    if (a.rank === preferred.length && a.bytes !== b.bytes) return a.bytes - b.bytes;
    const [first, second] = [a.parts[0] as string, b.parts[0] as string];
    return first.split('/').length - second.split('/').length || (first < second ? -1 : 1);
  });
  return models[0]?.parts ?? [];
}

/** All files of the model that `path` is, or is a shard of. */
export function modelFiles(path: string): string[] {
  const shard = parseShardName(path);
  return shard === null ? [path] : shardNames(shard);
}

function quantisationRank(path: string): number {
  const rank = preferred.findIndex((name) => new RegExp(`(^|[-_./])${name}([-./]|$)`, 'i').test(path));
  return rank === -1 ? preferred.length : rank;
}
