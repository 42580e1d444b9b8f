import type { SecureContext, TLSSocket } from 'node:tls';
import { dialTls, type TlsTarget } from './dial-tls.ts';

export interface SpareConnections {
  /** An idle authenticated connection to the target's peer, or null; another is opened in its place. */
  take(target: TlsTarget): TLSSocket | null;
  /** A connection was opened for use: others will probably follow. */
  used(target: TlsTarget): void;
  close(): void;
}

/** A spare that was taken is replaced when the request that took it has had its time. */
const refillMs = 25;
/** Below the minute that members may take before their preamble. */
const idleMs = 40_000;
const dialMs = 5_000;
/** Peers that may have spares at once. */
const maxPeers = 64;

interface Shelf {
  readonly idle: Spare[];
  opening: number;
}

interface Spare {
  readonly socket: TLSSocket;
  /** Takes the socket back from the shelf's care. */
  release(): void;
}

/** Up to `count` connections per peer and protocol, kept only while they are being used: an expired one is not replaced. */
export function createSpareConnections(context: SecureContext, count: number): SpareConnections {
  const shelves = new Map<string, Shelf>();
  const closing = new AbortController();

  const refill = (key: string, target: TlsTarget): void => {
    if (closing.signal.aborted) return;
    let shelf = shelves.get(key);
    if (!shelf) {
      if (shelves.size >= maxPeers) return;
      shelf = { idle: [], opening: 0 };
      shelves.set(key, shelf);
    }
    while (shelf.idle.length + shelf.opening < count) {
      shelf.opening += 1;
      void open(key, shelf, target);
    }
  };

  const refillSoon = (target: TlsTarget): void => {
    setTimeout(() => refill(keyOf(target), target), refillMs).unref();
  };

  const open = async (key: string, shelf: Shelf, target: TlsTarget): Promise<void> => {
    try {
      const socket = await dialTls(context, target, { timeoutMs: dialMs, signal: closing.signal });
      const forget = (): void => {
        const index = shelf.idle.indexOf(spare);
        if (index >= 0) shelf.idle.splice(index, 1);
        if (shelf.idle.length + shelf.opening === 0) shelves.delete(key);
      };
      const drop = (): void => {
        forget();
        socket.destroy();
      };
      const timer = setTimeout(drop, idleMs);
      timer.unref();
      const spare: Spare = {
        socket,
        release() {
          clearTimeout(timer);
          socket.off('data', drop).off('end', drop).off('close', drop);
          socket.pause();
          forget();
        },
      };
      // A peer that ends or says anything before it was asked has no use for the connection.
      socket.on('data', drop).on('end', drop).on('close', drop);
      shelf.idle.push(spare);
    } catch {
      // Whoever needs a connection dials for itself and hears the reason.
    } finally {
      shelf.opening -= 1;
      if (shelf.idle.length + shelf.opening === 0) shelves.delete(key);
    }
  };

  return {
    take(target) {
      const spare = shelves.get(keyOf(target))?.idle[0];
      if (!spare) return null;
      spare.release();
      refillSoon(target);
      return spare.socket.destroyed ? null : spare.socket;
    },
    used: refillSoon,
    close() {
      closing.abort();
      for (const { idle } of [...shelves.values()]) for (const { socket } of [...idle]) socket.destroy();
    },
  };
}

function keyOf(target: TlsTarget): string {
  return `${target.nodeId} ${target.alpn}`;
}
