import type { EngineId } from '#shared/lib/ids.ts';
import type { Grant } from '#shared/host/transport.ts';

/** What a new transport process must know of the grants that its predecessor had. */
export interface ClientGrants {
  add(grant: Grant): void;
  remove(engineId: EngineId): void;
  renew(): void;
  /** With the time that they have left. */
  current(): Grant[];
}

/** @param now monotonic ms */
export function createClientGrants(now: () => number): ClientGrants {
  const grants = new Map<string, { readonly grant: Grant; expiresAt: number }>();
  return {
    add: (grant) => void grants.set(grant.token, { grant, expiresAt: now() + grant.ttlMs }),
    remove(engineId) {
      for (const [token, { grant }] of [...grants]) if (grant.engineId === engineId) grants.delete(token);
    },
    renew() {
      for (const entry of grants.values()) entry.expiresAt = now() + entry.grant.ttlMs;
    },
    current: () =>
      [...grants.values()].map(({ grant, expiresAt }) => ({
        ...grant,
        ttlMs: Math.max(0, expiresAt - now()),
      })),
  };
}
