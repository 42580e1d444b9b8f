import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { createAttempts } from '../../src-main/nodejs/access/attempts.ts';
import type { LocalAccess } from '../../src-main/nodejs/access/local-access.ts';
import { bearerToken, tokenKind } from '../../src-main/nodejs/access/tokens.ts';
import { anonymous, type Authenticate, type Principal } from '../../src-main/nodejs/http/http-call.ts';

const owner: Principal = { kind: 'local', access: 'local', id: null, revoked: null };
const onLoopback: Principal = { ...anonymous, access: 'inference' };

/**
 * Who may call a worker's API. This machine's own token is for what is about this machine; whatever else is asked
 * goes to the controller with the caller's own login or key, and it is the controller that checks that.
 */
export function workerAccess(options: {
  readonly local: Pick<LocalAccess, 'verify'>;
  /** Otherwise there is nobody to log in at. */
  readonly isMember: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}): { readonly authenticate: Authenticate; readonly onRefused: (error: CoveyError) => void } {
  const { local, clock, logger } = options;
  const wrong = createAttempts(() => clock.now());
  /** Requests of pages of other sites, by what was wrong with them. */
  const pages = createAttempts(() => clock.now());
  const refuse = (message: string): never => {
    const outcome = wrong.fail('loopback');
    if (outcome !== 'counted') logger.warn('a wrong token was shown on this machine', { outcome });
    wrong.check('loopback');
    throw new CoveyError('token_invalid', message);
  };
  const authenticate: Authenticate = ({ needs, authorization }) => {
    if (needs === 'public') return anonymous;
    if (needs === 'inference') return onLoopback;
    const token = bearerToken(authorization);
    if (token === null) {
      throw new CoveyError('token_missing', 'A token is needed: send "Authorization: Bearer TOKEN".');
    }
    const isOwner = local.verify(token);
    const kind = tokenKind(token);
    if (needs === 'local') {
      if (isOwner) return owner;
      if (kind === 'session' || kind === 'key') {
        throw new CoveyError(
          'owner_required',
          'This is about this machine itself, and a login at the controller is not for that: see "This computer" here.',
        );
      }
      return refuse("This asks for this machine's own token.");
    }
    if (isOwner && !options.isMember()) {
      throw new CoveyError('not_a_member', 'This machine has not joined a covey yet: run "covey join" here.');
    }
    if (isOwner) {
      throw new CoveyError(
        'admin_required',
        "This machine's own token is for this machine alone: what is the controller's needs a login there.",
      );
    }
    switch (kind) {
      case 'session':
        return { kind: 'session', access: 'admin', id: null, revoked: null };
      case 'key':
        return { kind: 'key', access: 'admin', id: null, revoked: null };
      case 'local':
      case 'machine':
      case null:
        return refuse('This token is not valid here, or not any more.');
    }
  };
  return {
    authenticate,
    onRefused({ code, message }) {
      if (pages.fail(code) === 'first') logger.warn('a request was refused', { code, reason: message });
    },
  };
}
