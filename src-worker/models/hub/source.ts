import { parseShardName, shardNames } from '../shards.ts';

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
