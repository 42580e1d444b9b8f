import type { SessionView } from '#shared/api/access.ts';
import { createAttempts } from './attempts.ts';
import { codeRefusal, createLoginCodes, type LoginCode } from './login-codes.ts';
import { hashToken, newToken, sameHash } from './tokens.ts';
import type { HttpCall } from '../http/http-call.ts';

/** One-time codes for the page of this machine, and the logins that they are exchanged for. */
export interface LoginPort {
  code(): LoginCode;
  /** @throws CoveyError `login_code_invalid`, `too_many_requests` */
  redeem(code: string, caller: Pick<HttpCall, 'via' | 'remoteAddress'>): SessionView;
}

/** Of a machine that is only a worker. */
export interface MachineLogins extends LoginPort {
  /** Whether the token is of a login that goes on. */
  verify(token: string): boolean;
}

/** As long as a controller's. */
const lifeMs = 12 * 60 * 60_000;
/** More than these: the oldest end. */
const most = 32;

/**
 * The right of this machine's owner for a browser on it, which has no way to read the owner's token. In memory:
 * a restart ends all of them.
 */
export function createMachineLogins(now: () => number): MachineLogins {
  const codes = createLoginCodes(now);
  const wrong = createAttempts(now);
  let held: readonly { readonly hash: string; readonly expiresAt: number }[] = [];
  const alive = () => held.filter(({ expiresAt }) => expiresAt > now());
  return {
    code: () => codes.create(),
    redeem(code) {
      const outcome = codes.redeem(code);
      if (outcome !== 'good') {
        // Only this machine gets here: guesses are quieted, and the right code still gets in.
        wrong.fail('loopback');
        wrong.check('loopback');
        throw codeRefusal(outcome, 'On this computer, "covey open machine" makes another');
      }
      const token = newToken('machine');
      const expiresAt = now() + lifeMs;
      held = [...alive(), { hash: hashToken(token), expiresAt }].slice(-most);
      return { token, role: 'machine', expiresAt };
    },
    verify(token) {
      const hash = hashToken(token);
      return alive().filter((one) => sameHash(one.hash, hash)).length > 0;
    },
  };
}
