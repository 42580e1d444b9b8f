import { createHash } from 'node:crypto';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactGrant } from '#shared/host/transport.ts';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';

/** Which peer may read which artifact here, by token; looked up by hash as in grant-table.ts. */
export interface ArtifactGrants {
  add(grant: ArtifactGrant): void;
  /**
   * The artifact that the token lets this peer read. A right that is on its way here may come later than the peer
   * that has it: it is waited for.
   * @throws CoveyError `grant_invalid`, `grant_expired`
   */
  check(token: string, peer: NodeId): Promise<ArtifactId>;
}

/** How much later the controller's word may come than the peer's. */
const onItsWayMs = 3_000;
const maxWaiting = 256;

/** @param now monotonic ms */
export function createArtifactGrants(initial: readonly ArtifactGrant[], now: () => number): ArtifactGrants {
  const entries = new Map<string, { readonly grant: ArtifactGrant; readonly expiresAt: number }>();
  const waiting = new Set<() => void>();
  const unknown = (): CoveyError =>
    new CoveyError('grant_invalid', 'There is no such grant for this machine.');

  const find = (token: string, peer: NodeId): ArtifactId | null => {
    const entry = entries.get(hash(token));
    if (entry?.grant.peer !== peer) return null;
    if (now() >= entry.expiresAt) {
      throw new CoveyError('grant_expired', 'The right to this artifact has run out.');
    }
    return entry.grant.artifact;
  };
  const added = (): Promise<void> =>
    new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, onItsWayMs);
      waiting.add(wake);
    });
  const add = (grant: ArtifactGrant): void => {
    for (const [key, { expiresAt }] of entries) if (now() >= expiresAt + onItsWayMs) entries.delete(key);
    entries.set(hash(grant.token), { grant, expiresAt: now() + grant.ttlMs });
    for (const wake of [...waiting]) wake();
  };
  for (const grant of initial) add(grant);

  return {
    add,
    async check(token, peer) {
      const deadline = now() + onItsWayMs;
      for (;;) {
        const found = find(token, peer);
        if (found !== null) return found;
        if (now() >= deadline || waiting.size >= maxWaiting) throw unknown();
        await added();
      }
    },
  };
}

function hash(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
