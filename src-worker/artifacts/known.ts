import { mkdir, readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { artifactStakeSchema, type ArtifactStake } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { writePrivateFile } from '../../src-main/nodejs/private-file.ts';

/** An artifact that is whole in this worker's store. */
export interface KnownArtifact extends ArtifactStake {
  /** Made here and not yet fetched by the controller: it is kept whatever happens. */
  readonly kept: boolean;
  /** The controller has said that no job needs it: it goes first. */
  readonly free: boolean;
  readonly usedAt: number;
}

/** Remembers them over a restart, one small file each. */
export interface KnownArtifacts {
  list(): KnownArtifact[];
  get(id: ArtifactId): KnownArtifact | null;
  put(artifact: KnownArtifact): Promise<void>;
  drop(id: ArtifactId): Promise<void>;
}

const schema = artifactStakeSchema.extend({ kept: z.boolean(), free: z.boolean(), usedAt: z.number() });

/** @param isWhole what is not is forgotten */
export async function openKnownArtifacts(
  directory: string,
  isWhole: (stake: ArtifactStake) => Promise<boolean>,
): Promise<KnownArtifacts> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const known = new Map<ArtifactId, KnownArtifact>();
  const pathOf = (id: string): string => join(directory, `${id}.json`);
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (!/^[0-9a-f]{64}\.json$/.test(name)) {
      // It was being written when the program ended.
      await rm(path, { force: true });
      continue;
    }
    const parsed = schema.safeParse(parse(await readFile(path, 'utf8').catch(() => '')));
    if (parsed.success && (await isWhole(parsed.data).catch(() => false)))
      known.set(parsed.data.id, parsed.data);
    else await rm(path, { force: true });
  }
  return {
    list: () => [...known.values()],
    get: (id) => known.get(id) ?? null,
    async put(artifact) {
      known.set(artifact.id, artifact);
      await writePrivateFile(pathOf(artifact.id), JSON.stringify(artifact));
    },
    async drop(id) {
      known.delete(id);
      await rm(pathOf(id), { force: true });
    },
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
