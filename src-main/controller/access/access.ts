import { randomBytes } from 'node:crypto';
import type { z } from 'zod';
import type { createdKeySchema, keyScopeSchema, KeyView, SessionView } from '#shared/api/access.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Settings } from '#shared/settings.ts';
import { createAttempts } from '../../nodejs/access/attempts.ts';
import type { LocalAccess } from '../../nodejs/access/local-access.ts';
import { carriedMs, codeRefusal, createLoginCodes, type LoginCode } from '../../nodejs/access/login-codes.ts';
import { bearerToken, hashToken, newToken, sameHash, tokenKind } from '../../nodejs/access/tokens.ts';
import { originOf } from '../../nodejs/http/connection-limit.ts';
import {
  anonymous,
  includesAccess,
  type AccessAttempt,
  type Authenticate,
  type CallerVia,
  type Principal,
} from '../../nodejs/http/http-call.ts';
import type { NotedKind } from '../state/events.ts';
import type { AccessStore, KeyRow } from '../state/sqlite/access-store.ts';
import { createSessions } from './sessions.ts';

export type CreatedKey = z.infer<typeof createdKeySchema>;

/** Where a call comes from, as far as its answer depends on it. */
export interface Caller {
  readonly via: CallerVia;
  readonly remoteAddress: string;
}

/** Who may call this controller's API. */
export interface AccessControl {
  readonly authenticate: Authenticate;
  keys(): KeyView[];
  /** @throws CoveyError `invalid_request` for a name that is taken, `too_many_requests` */
  createKey(name: string, scope: z.infer<typeof keyScopeSchema>): CreatedKey;
  /** @throws CoveyError `key_not_found` */
  revokeKey(id: string): void;
  /** Fires after a key was made or revoked. */
  onKeys(listener: () => void): void;
  /** For a link that is opened at once. */
  loginCode(): LoginCode;
  /** For a person who carries it to another machine. */
  signInCode(): LoginCode;
  /** @throws CoveyError `login_code_invalid`, `too_many_requests` */
  redeem(code: string, caller: Caller): SessionView;
  /** @throws CoveyError `invalid_request` when the caller is no session */
  logout(principal: Principal): void;
  /** A request that a page of another site or a wrong name made was refused. */
  readonly noteRefused: (error: CoveyError, remoteAddress: string) => void;
  close(): void;
}

export interface AccessOptions {
  readonly store: AccessStore;
  readonly local: LocalAccess;
  readonly settings: () => Settings;
  readonly clock: Clock;
  /** For the list of events. */
  readonly note: (kind: NotedKind, level: 'info' | 'warn', message: string) => void;
}

interface HeldKey {
  row: KeyRow;
  readonly revoke: AbortController;
  readonly principal: Principal;
  /** From where it was used since the start. */
  readonly origins: Set<string>;
}

const maxKeys = 256;
const maxOrigins = 64;
const minuteMs = 60_000;
const onLoopback: Principal = { kind: 'anonymous', access: 'inference', id: null, revoked: null };
const member: Principal = { kind: 'member', access: 'inference', id: null, revoked: null };
const owner: Principal = { kind: 'local', access: 'admin', id: null, revoked: null };

export function createAccess(options: AccessOptions): AccessControl {
  const { store, local, settings, clock, note } = options;
  const now = (): number => clock.now();
  const wrong = createAttempts(now);
  const refusals = createAttempts(now);
  const codes = createLoginCodes(now);
  const sessions = createSessions(store, now);
  const keyListeners: (() => void)[] = [];
  const held = new Map<string, HeldKey>();
  const hold = (row: KeyRow): void => {
    const revoke = new AbortController();
    const principal: Principal = { kind: 'key', access: row.scope, id: row.id, revoked: revoke.signal };
    held.set(row.hash, { row, revoke, principal, origins: new Set() });
  };
  store.keys().forEach(hold);

  const use = (key: HeldKey, { via, remoteAddress }: Caller): Principal => {
    const minute = Math.floor(now() / minuteMs) * minuteMs;
    if (key.row.lastUsedAt !== minute) {
      key.row = { ...key.row, lastUsedAt: minute };
      // A full disk must not keep a request from being answered.
      attempt(() => store.touchKey(key.row.id, minute));
    }
    const origin = via === 'lan' ? originOf(remoteAddress) : via;
    if (!key.origins.has(origin) && key.origins.size < maxOrigins) {
      key.origins.add(origin);
      const where = placeOf({ via, remoteAddress });
      note('audit-key-first-used', 'info', `The API key ${key.row.name} is in use ${where}.`);
    }
    return key.principal;
  };

  const find = (token: string, caller: Caller): Principal | null => {
    switch (tokenKind(token)) {
      case 'local':
        // It never leaves its machine: whoever shows it elsewhere has copied it.
        return caller.via === 'loopback' && local.verify(token) ? owner : null;
      case 'session':
        return sessions.find(hashToken(token));
      case 'machine':
        // Of a worker's own page: nothing here.
        return null;
      case 'key': {
        const hash = hashToken(token);
        const key = held.get(hash);
        return key && sameHash(key.row.hash, hash) ? use(key, caller) : null;
      }
      case null:
        return null;
    }
  };

  /**
   * On this machine, and for all members together, a stranger's guesses must not lock the owner out: there the
   * limit quiets what is wrong, and what is right still gets in. No guess finds 80 bits in a minute.
   */
  const isStrict = ({ via }: Caller): boolean => via === 'lan';
  const checkOrigin = (caller: Caller): void => {
    if (isStrict(caller)) wrong.check(wrongOrigin(caller));
  };
  const countWrong = (caller: Caller, what: string): void => {
    const origin = wrongOrigin(caller);
    const outcome = wrong.fail(origin);
    const where = placeOf(caller);
    if (outcome === 'first') note('security-token-refused', 'warn', `A wrong ${what} was shown ${where}.`);
    if (outcome === 'locked-out') {
      const more = isStrict(caller) ? 'that address has to wait a minute' : 'more of them are not listed';
      note('security-token-refused', 'warn', `Many wrong tokens or codes were shown ${where}: ${more}.`);
    }
    wrong.check(origin);
  };

  const authenticate = (asked: AccessAttempt): Principal => {
    const { needs, via, authorization } = asked;
    if (needs === 'public') return anonymous;
    const token = bearerToken(authorization);
    // Programs that speak to OpenAI always send some key: where none is needed, any will do.
    const wantsKey = via === 'lan' || asked.requireKey || settings().api.requireKey;
    if (needs === 'inference' && !wantsKey) {
      const known = token === null ? null : find(token, asked);
      return known ?? (via === 'member' ? member : onLoopback);
    }
    checkOrigin(asked);
    const kind = needs === 'inference' ? 'key' : 'token';
    if (token === null) throw missing(needs, via);
    const principal = find(token, asked);
    if (principal === null) {
      countWrong(asked, kind === 'key' ? 'API key' : 'token');
      throw kind === 'key'
        ? new CoveyError('key_invalid', 'This API key is not valid, or not any more.')
        : new CoveyError('token_invalid', 'This token is not valid here, or not any more.');
    }
    if (includesAccess(principal.access, needs)) return principal;
    throw new CoveyError('admin_required', 'This needs a login or a key with scope "admin".');
  };

  return {
    authenticate,
    keys: () =>
      [...held.values()].map(({ row: { id, name, scope, createdAt, lastUsedAt } }) => ({
        id,
        name,
        scope,
        createdAt,
        lastUsedAt,
      })),
    createKey(name, scope) {
      if (held.size >= maxKeys) {
        throw new CoveyError('too_many_requests', `There are ${maxKeys} keys already: revoke one first.`);
      }
      if ([...held.values()].some(({ row }) => row.name === name)) {
        throw new CoveyError('invalid_request', `There is a key called "${name}" already.`, {
          field: 'name',
        });
      }
      const key = newToken('key');
      const id = `k-${randomBytes(6).toString('hex')}`;
      const row: KeyRow = { id, name, hash: hashToken(key), scope, createdAt: now(), lastUsedAt: null };
      written(() => store.addKey(row));
      hold(row);
      note('audit-key-created', 'info', `The API key ${name} was made, for ${scope}.`);
      keyListeners.forEach((listener) => listener());
      return { id, name, scope, createdAt: row.createdAt, lastUsedAt: null, key };
    },
    revokeKey(id) {
      const key = [...held.values()].find(({ row }) => row.id === id);
      if (!key) throw new CoveyError('key_not_found', `There is no key "${id}".`, { field: 'id' });
      written(() => store.dropKey(id));
      held.delete(key.row.hash);
      key.revoke.abort();
      note('audit-key-revoked', 'info', `The API key ${key.row.name} was revoked.`);
      keyListeners.forEach((listener) => listener());
    },
    onKeys: (listener) => void keyListeners.push(listener),
    loginCode: () => codes.create(),
    signInCode: () => codes.create(carriedMs),
    redeem(code, caller) {
      checkOrigin(caller);
      const outcome = codes.redeem(code);
      if (outcome !== 'good') {
        countWrong(caller, 'login code');
        throw codeRefusal(
          outcome,
          'At the controller, "Sign in on another machine" under Settings makes another, and so does "covey open"',
        );
      }
      const token = newToken('session');
      const expiresAt = written(() => sessions.add(hashToken(token)));
      note('audit-login', 'info', `Somebody logged in ${placeOf(caller)} with a one-time code.`);
      return { token, role: 'admin', expiresAt };
    },
    logout({ kind, id }) {
      if (kind === 'session' && id !== null) return written(() => sessions.end(id));
      throw new CoveyError('invalid_request', 'Only a login can be ended; this call was made without one.');
    },
    noteRefused(error, remoteAddress) {
      const outcome = refusals.fail(`${error.code} ${originOf(remoteAddress)}`);
      if (outcome === 'first') note('security-refused', 'warn', `A request was refused: ${error.message}`);
    },
    close: () => sessions.close(),
  };
}

const wrongOrigin = ({ via, remoteAddress }: Caller): string =>
  via === 'lan' ? originOf(remoteAddress) : via;

function placeOf({ via, remoteAddress }: Caller): string {
  if (via === 'loopback') return 'on this machine';
  return via === 'member' ? 'on another machine of the covey' : `from ${remoteAddress}`;
}

function missing(needs: AccessAttempt['needs'], via: CallerVia): CoveyError {
  if (needs === 'inference') {
    const why = via === 'lan' ? 'From other machines' : 'With the setting api.requireKey';
    return new CoveyError('key_missing', `${why}, an API key is needed: send "Authorization: Bearer KEY".`);
  }
  return new CoveyError('token_missing', 'A token is needed: send "Authorization: Bearer TOKEN".');
}

/** Nothing that could not be written counts as done. */
function written<T>(write: () => T): T {
  try {
    return write();
  } catch (error) {
    if (error instanceof CoveyError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new CoveyError('disk_full', `The change could not be written: ${reason}.`, {}, error);
  }
}

function attempt(action: () => void): void {
  try {
    action();
  } catch {
    // The next minute tries again.
  }
}
