import { randomBytes } from 'node:crypto';
import { CoveyError } from '#shared/errors.ts';
import { hashToken, sameHash } from './tokens.ts';

export interface LoginCode {
  /** `ABCD-EFGH-JKMN-PQRS` */
  readonly code: string;
  readonly expiresAt: number;
}

/** Codes that a person carries to a browser or another machine: 80 random bits, good once, in memory alone. */
export interface LoginCodes {
  /** @param lifeMs how long it is good: a minute unless a person has to walk with it */
  create(lifeMs?: number): LoginCode;
  /** Uses the code up. What kept it from being good is told to those alone who know the code. */
  redeem(code: string): 'good' | 'used' | 'expired' | 'unknown';
}

const linkMs = 60_000;
/** For a code that is read in one place and typed in another. */
export const carriedMs = 5 * 60_000;
const most = 16;
/** Codes that are good no more are remembered for as long, to say so. */
const rememberMs = 30 * 60_000;
const mostSpent = 64;
/** Crockford's base 32: no letter that reads like a digit. */
const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

interface Held {
  readonly hash: string;
  readonly expiresAt: number;
}

export function createLoginCodes(now: () => number): LoginCodes {
  let waiting: readonly Held[] = [];
  let spent: readonly (Held & { readonly why: 'used' | 'expired' })[] = [];
  const retire = (codes: readonly Held[], why: 'used' | 'expired'): void => {
    const kept = spent.filter(({ expiresAt }) => expiresAt + rememberMs > now());
    spent = [...kept, ...codes.map((code) => ({ ...code, why }))].slice(-mostSpent);
  };
  const tidy = (): void => {
    retire(
      waiting.filter(({ expiresAt }) => expiresAt <= now()),
      'expired',
    );
    waiting = waiting.filter(({ expiresAt }) => expiresAt > now());
  };
  return {
    create(lifeMs = linkMs) {
      tidy();
      const word = [...randomBytes(16)].map((byte) => letters[byte % 32]).join('');
      const expiresAt = now() + lifeMs;
      const all = [...waiting, { hash: hashToken(word), expiresAt }];
      // More than these: the oldest end.
      retire(all.slice(0, -most), 'expired');
      waiting = all.slice(-most);
      return { code: (word.match(/.{4}/g) ?? []).join('-'), expiresAt };
    },
    redeem(code) {
      tidy();
      const hash = hashToken(normalise(code));
      // All of them are compared, whichever it is.
      const found = waiting.filter((one) => sameHash(one.hash, hash));
      const gone = spent.filter((one) => sameHash(one.hash, hash));
      waiting = waiting.filter((one) => !found.includes(one));
      retire(found, 'used');
      return found.length > 0 ? 'good' : (gone[0]?.why ?? 'unknown');
    },
  };
}

function normalise(code: string): string {
  return code.toUpperCase().replace(/[\s-]/g, '').replace(/[IL]/g, '1').replace(/O/g, '0');
}

/** @param where how to get another, a sentence without its end: `"covey open" makes another` */
export function codeRefusal(why: 'used' | 'expired' | 'unknown', where: string): CoveyError {
  const what = {
    used: 'This code was used already: each works once.',
    expired: 'This code has expired.',
    unknown: 'There is no such code. Compare it, letter by letter, with the one that is shown.',
  }[why];
  return new CoveyError('login_code_invalid', `${what} ${where}.`, { field: 'code' });
}
