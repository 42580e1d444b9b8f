import type { TLSSocket } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';

/** Connections that we have asked peers for, by token: who may bring which, once, and not for long. */
export interface ReverseTable {
  expect(token: string, peer: NodeId): Expected;
  /**
   * The peer's connection with this token: who awaits it takes the socket over by calling the result. Throws
   * `dial_refused` for a token that is unknown, used, expired or another peer's, and `cancelled` when it came in
   * time but another way was quicker.
   */
  take(token: string, peer: NodeId): (socket: TLSSocket) => void;
  close(): void;
}

export interface Expected {
  readonly connection: Promise<TLSSocket>;
  /** Not wanted any more. */
  cancel(reason: CoveyError): void;
}

/** How long a peer has, from the asking. */
export const dialBackMs = 10_000;
/** More than this at once are not asked for. */
const maxExpected = 1_024;

interface Entry {
  readonly peer: NodeId;
  readonly resolve: (socket: TLSSocket) => void;
  readonly reject: (error: CoveyError) => void;
  readonly timer: NodeJS.Timeout;
  wanted: boolean;
}

export function createReverseTable(): ReverseTable {
  const entries = new Map<string, Entry>();
  return {
    expect(token, peer) {
      if (entries.size >= maxExpected) {
        throw new CoveyError('too_many_requests', `${maxExpected} connections are awaited already.`);
      }
      const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
      const timer = setTimeout(() => {
        entries.delete(token);
        reject(new CoveyError('timeout', `it did not call back within ${dialBackMs} ms`));
      }, dialBackMs);
      timer.unref();
      const entry: Entry = { peer, resolve, reject, timer, wanted: true };
      entries.set(token, entry);
      return {
        connection: promise,
        cancel(reason) {
          entry.wanted = false;
          reject(reason);
        },
      };
    },
    take(token, peer) {
      const entry = entries.get(token);
      // One answer for all: a token of another peer stays what it is.
      if (entry?.peer !== peer) {
        throw new CoveyError('dial_refused', 'Nobody here has asked for this connection.');
      }
      entries.delete(token);
      clearTimeout(entry.timer);
      if (!entry.wanted) throw new CoveyError('cancelled', 'This connection is not needed any more.');
      return entry.resolve;
    },
    close() {
      for (const { timer, reject } of entries.values()) {
        clearTimeout(timer);
        reject(new CoveyError('shutting_down', 'This machine is shutting down.'));
      }
      entries.clear();
    },
  };
}
