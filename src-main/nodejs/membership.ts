import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { nodeIdSchema } from '#shared/lib/ids.ts';
import { addressSchema, shortText } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
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
  /** What the covey calls this machine; absent: it has not said yet. */
  name: shortText.optional(),
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

/** The membership of a machine that runs; what changes of it is kept, one write after the other. */
export interface MembershipFile {
  /** As it is in the file, or will be when the writes are through. */
  readonly current: Membership;
  /** A write that fails is logged and undone in `current`, so that the next one has it too. */
  keep(part: Partial<Membership>): void;
  /** Resolves when nothing more will be written. */
  close(): Promise<void>;
}

/** @param write replaced in tests */
export function openMembershipFile(
  dataDirectory: string,
  membership: Membership,
  logger: Logger,
  write = writeMembership,
): MembershipFile {
  let current = membership;
  let writing: Promise<void> = Promise.resolve();
  let closed = false;
  return {
    get current() {
      return current;
    },
    keep(part) {
      if (closed) return;
      const before = current;
      const next = { ...before, ...part };
      current = next;
      writing = writing
        .then(() => write(dataDirectory, next))
        .catch((error: unknown) => {
          if (current === next) current = before;
          logger.warn('what changed of the membership could not be kept', { reason: String(error) });
        });
    },
    async close() {
      closed = true;
      await writing;
    },
  };
}

/** This machine belongs to no covey from now on. */
export async function forgetMembership(dataDirectory: string): Promise<void> {
  await rm(join(dataDirectory, fileName), { force: true });
}
