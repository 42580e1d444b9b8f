import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { nodeIdSchema } from '#shared/lib/ids.ts';
import { addressSchema } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import { readIfThere, writePrivateFile } from './private-file.ts';

export const maxMembershipAddresses = 16;
const addressesSchema = z.array(addressSchema).min(1).max(maxMembershipAddresses);

/** The controller that a worker belongs to: its key, and where it is reached. No secret. */
export const membershipSchema = z.object({
  controllerId: nodeIdSchema,
  controllerName: z.string().max(256),
  /** Where it was reached last, then where it said that it can be reached. */
  addresses: addressesSchema,
  /** Where it was when this machine joined, names of hosts among them; absent: the same. */
  joinAddresses: addressesSchema.optional(),
});
export type Membership = z.infer<typeof membershipSchema>;

const fileName = 'membership.json';

/** null: this machine has not joined. Throws `data_directory_unusable` naming the file when it is damaged. */
export async function readMembership(dataDirectory: string): Promise<Membership | null> {
  const path = join(dataDirectory, fileName);
  const text = await readIfThere(path);
  if (text === null) return null;
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
  await writePrivateFile(join(dataDirectory, fileName), `${JSON.stringify(membership, null, 2)}\n`);
}

/** This machine belongs to no covey from now on. */
export async function forgetMembership(dataDirectory: string): Promise<void> {
  await rm(join(dataDirectory, fileName), { force: true });
}
