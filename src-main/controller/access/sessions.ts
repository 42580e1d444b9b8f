import type { Principal } from '../../nodejs/http/http-call.ts';
import type { AccessStore, SessionRow } from '../state/sqlite/access-store.ts';

/** Logins by one-time code. They survive a restart and end after 12 hours. */
export interface Sessions {
  find(hash: string): Principal | null;
  /** @returns when it ends */
  add(hash: string): number;
  /** By the principal's id. */
  end(id: string): void;
  close(): void;
}

const lifeMs = 12 * 60 * 60_000;
/** More than these: the oldest end. */
const most = 256;

interface Held {
  readonly row: SessionRow;
  readonly ended: AbortController;
  readonly principal: Principal;
  readonly timer: NodeJS.Timeout;
}

export function createSessions(store: AccessStore, now: () => number): Sessions {
  const held = new Map<string, Held>();
  const idOf = (hash: string): string => hash.slice(0, 16);

  const drop = (session: Held): void => {
    clearTimeout(session.timer);
    held.delete(session.row.hash);
    session.ended.abort();
  };
  const hold = (row: SessionRow): void => {
    const ended = new AbortController();
    const session: Held = {
      row,
      ended,
      principal: { kind: 'session', access: 'admin', id: idOf(row.hash), revoked: ended.signal },
      // A clock that was set back must not make a login longer than it was meant to be.
      timer: setTimeout(() => drop(session), Math.min(lifeMs, Math.max(0, row.expiresAt - now()))).unref(),
    };
    held.set(row.hash, session);
  };

  store.dropSessionsBefore(now());
  store.sessions().forEach(hold);
  return {
    find(hash) {
      const session = held.get(hash);
      if (!session || session.row.expiresAt <= now()) return null;
      return session.principal;
    },
    add(hash) {
      store.dropSessionsBefore(now());
      const row: SessionRow = { hash, createdAt: now(), expiresAt: now() + lifeMs };
      store.addSession(row);
      hold(row);
      for (const session of [...held.values()].slice(0, Math.max(0, held.size - most))) {
        store.dropSession(session.row.hash);
        drop(session);
      }
      return row.expiresAt;
    },
    end(id) {
      const session = [...held.values()].find(({ row }) => idOf(row.hash) === id);
      if (!session) return;
      store.dropSession(session.row.hash);
      drop(session);
    },
    close() {
      for (const session of held.values()) clearTimeout(session.timer);
      held.clear();
    },
  };
}
