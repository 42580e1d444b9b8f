import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { clusterSecretSchema } from '#shared/domain/cluster-secret.ts';
import { CoveyError } from '#shared/errors.ts';
import { readIfThere, writePrivateFile } from './private-file.ts';

/** Beside the identity, and as secret: who reads it can join the covey. */
const fileName = 'cluster-secret';

/** null: this machine holds none. Throws `data_directory_unusable` naming the file when it is damaged. */
export async function readClusterSecret(dataDirectory: string): Promise<string | null> {
  const path = join(dataDirectory, fileName);
  const text = await readIfThere(path);
  if (text === null) return null;
  const parsed = clusterSecretSchema.safeParse(text.trim());
  if (parsed.success) return parsed.data;
  throw new CoveyError(
    'data_directory_unusable',
    `${path} is damaged. Delete it; a new secret is made with "covey secret new" on the controller.`,
  );
}

/** Mode 0600, whole or not at all. @param secret null: this machine shall hold none */
export async function writeClusterSecret(dataDirectory: string, secret: string | null): Promise<void> {
  const path = join(dataDirectory, fileName);
  if (secret === null) return rm(path, { force: true });
  await writePrivateFile(path, `${secret}\n`);
}
