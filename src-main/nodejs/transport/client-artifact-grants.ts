import type { ArtifactGrant } from '#shared/host/transport.ts';

/** The rights to artifacts that a new transport process must know of. */
export interface ClientArtifactGrants {
  add(grant: ArtifactGrant): void;
  /** With the time that they have left. */
  current(): ArtifactGrant[];
}

/** @param now monotonic ms */
export function createClientArtifactGrants(now: () => number): ClientArtifactGrants {
  const grants = new Map<string, { readonly grant: ArtifactGrant; readonly expiresAt: number }>();
  const dropOld = (): void => {
    for (const [token, { expiresAt }] of grants) if (now() >= expiresAt) grants.delete(token);
  };
  return {
    add(grant) {
      dropOld();
      grants.set(grant.token, { grant, expiresAt: now() + grant.ttlMs });
    },
    current() {
      dropOld();
      return [...grants.values()].map(({ grant, expiresAt }) => ({ ...grant, ttlMs: expiresAt - now() }));
    },
  };
}
