import { join } from 'node:path';
import { createHasher, type Hasher } from '../nodejs/artifacts/hasher.ts';
import { openArtifactStore, type ArtifactStore } from '../nodejs/artifacts/store.ts';
import type { ProcessHost } from '../nodejs/process-host/process-host.ts';

/** This machine's artifacts: one store, whatever roles it has. */
export interface OpenArtifacts {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
}

export async function openArtifacts(dataDirectory: string, processHost: ProcessHost): Promise<OpenArtifacts> {
  return {
    store: await openArtifactStore(join(dataDirectory, 'artifacts')),
    hasher: createHasher(processHost),
  };
}
