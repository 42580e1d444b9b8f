import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { nodeIdSchema } from '#shared/lib/ids.ts';
import { addressSchema } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';

/** The controller that a worker belongs to: its key, and where it was last reached. No secret. */
export const membershipSchema = z.object({
  controllerId: nodeIdSchema,
  controllerName: z.string().max(256),
  addresses: z.array(addressSchema).min(1).max(16),
});
export type Membership = z.infer<typeof membershipSchema>;

const fileName = 'membership.json';

/** null: this machine has not joined. Throws `data_directory_unusable` naming the file when it is damaged. */
export async function readMembership(dataDirectory: string): Promise<Membership | null> {
  const path = join(dataDirectory, fileName);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    return membershipSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CoveyError(
      'data_directory_unusable',
      `${path} is damaged. Delete it and join again with a new join string.`,
      {},
      error,
    );
  }
}

export async function writeMembership(dataDirectory: string, membership: Membership): Promise<void> {
  const path = join(dataDirectory, fileName);
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, `${JSON.stringify(membership, null, 2)}\n`, { mode: 0o600, flush: true });
  await rename(temporary, path);
}
