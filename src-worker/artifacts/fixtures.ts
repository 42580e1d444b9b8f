import { join } from 'node:path';
import { entries } from '../../src-main/nodejs/entries.ts';
import { createHasher } from '../../src-main/nodejs/artifacts/hasher.ts';
import { openArtifactStore } from '../../src-main/nodejs/artifacts/store.ts';
import { createChildProcessHost } from '../../src-main/nodejs/process-host/child-process-host.ts';
import { createLentDisk } from '../lend/lent-disk.ts';
import type { ArtifactCacheOptions } from './artifact-cache.ts';

/** A worker's artifacts in a directory of the test's; the hashing process starts when something is hashed. */
export async function testArtifacts(
  dataDirectory: string,
): Promise<Pick<ArtifactCacheOptions, 'store' | 'hasher' | 'shared' | 'disk'>> {
  return {
    store: await openArtifactStore(join(dataDirectory, 'artifacts')),
    hasher: createHasher(createChildProcessHost(entries)),
    shared: false,
    disk: createLentDisk(() => null),
  };
}
