import { randomBytes } from 'node:crypto';
import type { Logger } from '#shared/lib/logger.ts';
import { readClusterSecret, writeClusterSecret } from '../../nodejs/cluster-secret-file.ts';
import { newClusterSecret } from '../../nodejs/pairing/cluster-secret.ts';
import type { JoinAudit } from './join-audit.ts';

/** The controller's cluster secret, in memory and on disk. */
export interface ClusterSecrets {
  readonly current: () => string | null;
  /** Resolves when it is on disk. */
  readonly renew: () => Promise<string>;
  readonly drop: () => Promise<void>;
  /** Where there is a secret: another one, which counts before it is on disk. Never rejects. */
  readonly rotate: () => Promise<void>;
  readonly onChange: (listener: (secret: string | null) => void) => void;
}

/** Throws `data_directory_unusable` when the file is damaged. */
export async function createClusterSecrets(options: {
  readonly dataDirectory: string;
  readonly logger: Logger;
  readonly audit: JoinAudit;
}): Promise<ClusterSecrets> {
  const { dataDirectory, logger, audit } = options;
  let secret = await readClusterSecret(dataDirectory);
  const listeners: Array<(secret: string | null) => void> = [];
  /** Writes follow one another: the last change is what stays. */
  let writing: Promise<void> = Promise.resolve();

  const write = (next: string | null): Promise<void> => {
    const written = writing.then(() => writeClusterSecret(dataDirectory, next));
    writing = written.catch(() => undefined);
    return written;
  };
  let changes = 0;
  const use = (next: string | null, message: string): void => {
    secret = next;
    changes += 1;
    audit.note('audit-cluster-secret-changed', 'info', message);
    for (const listener of listeners) listener(next);
  };
  /** On disk before it counts; once more when another change came in between. */
  const change = async (next: string | null, message: string): Promise<void> => {
    for (let seen = -1; seen !== changes;) {
      seen = changes;
      await write(next);
    }
    use(next, message);
  };
  const make = (): string => newClusterSecret(randomBytes(16));

  return {
    current: () => secret,
    async renew() {
      const next = make();
      await change(next, 'A new cluster secret was made.');
      return next;
    },
    async drop() {
      if (secret === null) return;
      await change(null, 'The cluster secret was dropped: no machine joins by itself.');
    },
    async rotate() {
      if (secret === null) return;
      const next = make();
      use(next, 'A machine was removed, so there is a new cluster secret.');
      try {
        await write(next);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        logger.error('the new cluster secret could not be written', { reason });
        const message = `The new cluster secret could not be written (${reason}): after a restart the old one, which the removed machine knows, would count again. Run "covey secret new".`;
        audit.note('audit-cluster-secret-changed', 'error', message);
      }
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
