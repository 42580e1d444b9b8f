import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { databaseName } from '../backup/contents.ts';
import { moveAside } from '../backup/move-aside.ts';
import { openDataDirectory } from '../data-directory.ts';
import { readMembership } from '../membership.ts';
import { ensureIdentity, readIdentity, type Identity } from './identity.ts';

/** What a node is to others by its identity, for the question before it gets another one. */
export interface IdentityUse {
  readonly identity: Identity;
  /** Keeps the machines of a covey. */
  readonly isController: boolean;
  readonly controllerName: string | null;
}

export interface NewIdentityReport {
  readonly before: NodeId;
  readonly nodeId: NodeId;
  /** Where the old key is now, with what belonged to it. */
  readonly movedTo: string;
}

/** What goes with the key: membership, secrets and tokens. In this order, so that a key never stands without them. */
const bound = [
  // No member of a controller would come back to another key.
  `${databaseName}-wal`,
  `${databaseName}-shm`,
  databaseName,
  'membership.json',
  'cluster-secret',
  'api-access.json',
  'api-session.json',
  'lan',
  'identity',
];

/**
 * Makes this data directory another node: a new key, and what went with the old one moved aside. A
 * controller's database goes with it. Models and settings stay. Throws `data_directory_locked` naming the process while the node runs, and
 * `data_directory_unusable` when there is no identity to replace.
 * @param confirm asked while the directory is held; null: it was refused, nothing has changed
 */
export async function newIdentity(options: {
  readonly dataDirectory: string;
  readonly logger: Logger;
  readonly now: () => number;
  readonly confirm: (use: IdentityUse) => Promise<boolean>;
}): Promise<NewIdentityReport | null> {
  const { logger, now } = options;
  await requireIdentity(options.dataDirectory, logger);
  const data = await openDataDirectory(options.dataDirectory, { logger });
  try {
    const use = await identityUse(data.path, logger);
    if (!(await options.confirm(use))) return null;
    const movedTo = await moveAside(data.path, bound, now());
    const { nodeId } = await ensureIdentity(join(data.path, 'identity'), { logger, now });
    return { before: use.identity.nodeId, nodeId, movedTo: movedTo ?? data.path };
  } finally {
    await data.close();
  }
}

export async function identityUse(dataDirectory: string, logger: Logger): Promise<IdentityUse> {
  const identity = await requireIdentity(dataDirectory, logger);
  const isController = await stat(join(dataDirectory, databaseName)).then(
    () => true,
    () => false,
  );
  const membership = await readMembership(dataDirectory).catch(() => null);
  return { identity, isController, controllerName: membership?.controllerName ?? null };
}

async function requireIdentity(dataDirectory: string, logger: Logger): Promise<Identity> {
  const identity = await readIdentity(join(dataDirectory, 'identity'), logger);
  if (identity) return identity;
  throw new CoveyError(
    'data_directory_unusable',
    `${dataDirectory} holds no identity yet: it is made when Covey starts there. --data names another directory.`,
    { field: 'data' },
  );
}
