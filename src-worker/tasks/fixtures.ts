import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { ArtifactCache } from '../artifacts/cache.ts';

/** For tests: a cache over one directory, whose artifacts the test puts there. */
export interface PlainCache extends ArtifactCache {
  put(content: string | Buffer): ArtifactStake;
  /** Of a file. */
  read(id: ArtifactId): string;
  /** Of a tree: its paths. */
  list(id: ArtifactId): string[];
  held: number;
}

export function plainCache(directory: string): PlainCache {
  mkdirSync(directory, { recursive: true });
  const pathOf = (id: string): string => join(directory, id);
  const idOf = (content: string | Buffer): ArtifactId =>
    createHash('sha256').update(content).digest('hex') as ArtifactId;
  const find = (id: string): string => {
    if (existsSync(pathOf(id))) return pathOf(id);
    throw new CoveyError('artifact_unreachable', `nobody has ${id.slice(0, 8)}`);
  };
  const listing = (root: string): string[] => readdirSync(root, { recursive: true }).map(String).sort();
  const cache: PlainCache = {
    held: 0,
    put(content) {
      const id = idOf(content);
      writeFileSync(pathOf(id), content);
      return { id, kind: 'file', bytes: content.length };
    },
    read: (id) => readFileSync(pathOf(id), 'utf8'),
    list: (id) => listing(pathOf(id)),
    async ensure(stake) {
      const path = find(stake.id);
      cache.held += 1;
      let released = false;
      return {
        path,
        release() {
          if (!released) cache.held -= 1;
          released = true;
        },
      };
    },
    async materialise(stake, target) {
      cpSync(find(stake.id), target, { recursive: true });
    },
    async addFile(path) {
      return cache.put(readFileSync(path));
    },
    async addTree(path) {
      const id = idOf(listing(path).join('\n'));
      cpSync(path, pathOf(id), { recursive: true });
      return { id, kind: 'tree', bytes: statSync(path).size };
    },
  };
  return cache;
}
