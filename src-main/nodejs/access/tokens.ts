import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** `machine`: a login of a browser at this machine's own page. */
export type TokenKind = 'local' | 'machine' | 'session' | 'key';

/** `covey_key_…`: the kind in clear, so that a person who finds one knows what it is, and 32 random bytes. */
export function newToken(kind: TokenKind): string {
  return `covey_${kind}_${randomBytes(32).toString('base64url')}`;
}

/** null: nothing that we ever gave out. */
export function tokenKind(token: string): TokenKind | null {
  const match = /^covey_(local|machine|session|key)_[\w-]{43}$/.exec(token);
  return (match?.[1] as TokenKind | undefined) ?? null;
}

/** How tokens are kept: SHA-256 in hex. They are random enough that nothing slower is needed. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Takes as long for any two hashes. */
export function sameHash(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The token of `Authorization: Bearer TOKEN`; null: there is none, or none of that form. */
export function bearerToken(authorization: string | undefined): string | null {
  if (authorization === undefined) return null;
  return /^Bearer +([\x21-\x7e]{1,512})$/i.exec(authorization)?.[1] ?? null;
}
