import { randomBytes } from 'node:crypto';
import { hashToken, sameHash } from '../../nodejs/access/tokens.ts';

/**
 * Codes that a person carries to a browser or another machine: 80 random bits, good once and for a minute, in
 * memory alone.
 */
export interface LoginCodes {
  create(): { readonly code: string; readonly expiresAt: number };
  /** Uses the code up. */
  redeem(code: string): boolean;
}

const lifeMs = 60_000;
const most = 16;
/** Crockford's base 32: no letter that reads like a digit. */
const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

export function createLoginCodes(now: () => number): LoginCodes {
  let waiting: { readonly hash: string; readonly expiresAt: number }[] = [];
  const alive = () => waiting.filter(({ expiresAt }) => expiresAt > now());
  return {
    create() {
      const word = [...randomBytes(16)].map((byte) => letters[byte % 32]).join('');
      const expiresAt = now() + lifeMs;
      waiting = [...alive(), { hash: hashToken(word), expiresAt }].slice(-most);
      return { code: (word.match(/.{4}/g) ?? []).join('-'), expiresAt };
    },
    redeem(code) {
      const hash = hashToken(normalise(code));
      const rest = alive();
      // All of them are compared, whichever it is.
      const found = rest.filter((one) => sameHash(one.hash, hash));
      waiting = rest.filter((one) => !found.includes(one));
      return found.length > 0;
    },
  };
}

function normalise(code: string): string {
  return code.toUpperCase().replace(/[\s-]/g, '').replace(/[IL]/g, '1').replace(/O/g, '0');
}
