import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Access } from '#shared/api/access.ts';

/** How a request came in: from this machine, from a member through the transport, or over the LAN by HTTPS. */
export type CallerVia = 'loopback' | 'member' | 'lan';

/** Who makes a request. */
export interface Principal {
  readonly kind: 'local' | 'session' | 'key' | 'member' | 'anonymous';
  /** The most that they may call. */
  readonly access: Access;
  /** Of the key or session, for lists and logs; null where there is none. */
  readonly id: string | null;
  /** Aborts when the key or session ends: what is open for it has to end too. */
  readonly revoked: AbortSignal | null;
}

export const anonymous: Principal = { kind: 'anonymous', access: 'public', id: null, revoked: null };

/** One request and what a handler may know about it. */
export interface HttpCall {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly via: CallerVia;
  readonly principal: Principal;
  /** Empty for a member's request, whose address the transport keeps. */
  readonly remoteAddress: string;
  /** Aborts when the server begins to close: streams that have no end of their own end now. */
  readonly stopping: AbortSignal;
  /** Aborts with a CoveyError when running requests are no longer waited for. */
  readonly closing: AbortSignal;
}

/** What is known of a request when its caller has to be named. */
export interface AccessAttempt {
  /** What the route asks for. */
  readonly needs: Access;
  readonly via: CallerVia;
  /** The header as it came. */
  readonly authorization: string | undefined;
  /** The member that passes the request on asks that it be made with a key. */
  readonly requireKey: boolean;
  readonly remoteAddress: string;
}

/**
 * Names the caller of a route, or refuses.
 * @throws CoveyError `token_missing`, `token_invalid`, `key_missing`, `key_invalid`, `admin_required`,
 *   `too_many_requests`
 */
export type Authenticate = (attempt: AccessAttempt) => Principal;

const ranks: Readonly<Record<Access, number>> = { public: 0, inference: 1, local: 2, admin: 3 };

/** Each level includes those below it. */
export function includesAccess(has: Access, needs: Access): boolean {
  return ranks[has] >= ranks[needs];
}
