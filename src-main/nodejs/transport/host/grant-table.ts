import { createHash } from 'node:crypto';
import type { Grant } from '#shared/host/transport.ts';
import { CoveyError } from '#shared/errors.ts';
import type { EngineId, NodeId } from '#shared/lib/ids.ts';

/** One stream (or pulse) that uses a grant. */
export interface GrantUse {
  readonly grant: Grant;
  /** The stream is over. Idempotent. */
  release(): void;
}

export interface GrantTable {
  add(grant: Grant): void;
  /** Ends all use of an engine's grants. */
  remove(engineId: EngineId): void;
  /** All grants are good for their `ttlMs` again, from now. What is open goes on when one expires. */
  renew(): void;
  /**
   * The grant that `token` names, for this peer and protocol (null: the connection names none, as when we dialled
   * it for the peer); throws `grant_invalid` or `grant_expired`.
   */
  check(token: string, peer: NodeId, alpn: Grant['alpn'] | null): Grant;
  /**
   * Takes one of the grant's streams; `revoke` is called when the grant is removed. When all are taken this
   * waits: a leader closes one stream and opens the next, and the two travel on connections of their own.
   * Rejects with `too_many_requests` after `waitMs`, with `grant_expired` when it is removed meanwhile.
   */
  use(grant: Grant, revoke: () => void, waitMs: number): Promise<GrantUse>;
  /** The one pulse of a grant; it takes the place of an older one. */
  watch(grant: Grant, revoke: () => void): GrantUse;
}

interface Entry {
  readonly grant: Grant;
  expiresAt: number;
  readonly uses: Set<() => void>;
  readonly pulses: Set<() => void>;
  readonly waiting: Set<() => void>;
}

/** Tokens of removed grants, so that a late peer hears `grant_expired` and not `grant_invalid`. */
const maxRemoved = 512;

/**
 * Tokens are looked up by hash: what the time of a comparison could tell about a hash tells nothing about the
 * token.
 * @param now monotonic ms
 */
export function createGrantTable(initial: readonly Grant[], now: () => number): GrantTable {
  const entries = new Map<string, Entry>();
  const removed = new Set<string>();

  const table: GrantTable = {
    add(grant) {
      const key = hash(grant.token);
      if (entries.has(key)) return;
      const expiresAt = now() + grant.ttlMs;
      entries.set(key, { grant, expiresAt, uses: new Set(), pulses: new Set(), waiting: new Set() });
    },
    remove(engineId) {
      for (const [key, entry] of [...entries]) {
        if (entry.grant.engineId !== engineId) continue;
        entries.delete(key);
        removed.add(key);
        for (const revoke of [...entry.uses, ...entry.pulses]) revoke();
        for (const wake of [...entry.waiting]) wake();
      }
      for (const oldest of removed) {
        if (removed.size <= maxRemoved) break;
        removed.delete(oldest);
      }
    },
    renew() {
      for (const entry of entries.values()) entry.expiresAt = now() + entry.grant.ttlMs;
    },
    check(token, peer, alpn) {
      const key = hash(token);
      const entry = entries.get(key);
      if (entry?.grant.peers.includes(peer) && (alpn === null || entry.grant.alpn === alpn)) {
        if (now() >= entry.expiresAt) throw outdated();
        return entry.grant;
      }
      if (removed.has(key)) throw expired();
      // One answer for all: who may not use a grant does not learn that it exists.
      throw new CoveyError('grant_invalid', 'There is no such grant for this machine.');
    },
    async use(grant, revoke, waitMs) {
      const entry = entryOf(grant);
      const deadline = performance.now() + waitMs;
      while (entry.uses.size >= grant.maxStreams) {
        await freed(entry, deadline - performance.now());
        if (entryOf(grant) !== entry) throw expired();
      }
      return enter(grant, entry.uses, revoke, () => {
        for (const wake of entry.waiting) return wake();
      });
    },
    watch(grant, revoke) {
      const { pulses } = entryOf(grant);
      // A leader has one pulse: an older one is of a connection that it has given up.
      for (const older of [...pulses]) older();
      return enter(grant, pulses, revoke, () => undefined);
    },
  };
  const entryOf = (grant: Grant): Entry => {
    const entry = entries.get(hash(grant.token));
    if (!entry) throw expired();
    return entry;
  };
  for (const grant of initial) table.add(grant);
  return table;
}

function enter(grant: Grant, set: Set<() => void>, revoke: () => void, left: () => void): GrantUse {
  set.add(revoke);
  return {
    grant,
    release() {
      if (set.delete(revoke)) left();
    },
  };
}

function expired(): CoveyError {
  return new CoveyError('grant_expired', 'The engine that this grant was for has ended.');
}

function outdated(): CoveyError {
  return new CoveyError('grant_expired', 'This grant has not been renewed: its machine lost its controller.');
}

/** Resolves when a stream of the entry is free or the entry is gone. */
function freed(entry: Entry, waitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const wake = (): void => {
      clearTimeout(timer);
      entry.waiting.delete(wake);
      resolve();
    };
    const timer = setTimeout(() => {
      entry.waiting.delete(wake);
      const { maxStreams } = entry.grant;
      reject(new CoveyError('too_many_requests', `All ${maxStreams} streams of this engine are in use.`));
    }, waitMs);
    entry.waiting.add(wake);
  });
}

function hash(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
