import type { LinkPath } from '#shared/domain/engine.ts';
import type { NodeId } from '#shared/lib/ids.ts';

export type Way = Exclude<LinkPath, 'local'>;

export interface PlannedWay {
  readonly way: Way;
  /** When to start it, if nothing has come about by then; at once when all that were started have failed. */
  readonly afterMs: number;
}

/** Which way to a peer worked last, and what that means for the next stream. */
export interface PathMemory {
  /** The ways to try, of those that are `possible`. */
  plan(peer: NodeId, possible: readonly Way[]): PlannedWay[];
  works(peer: NodeId, way: Way): void;
}

/** Direct is given this long before the peer is asked to call back, and that this long before the relay. */
const directMs = 1_000;
const reverseMs = 1_500;
/** What worked is tried first for this long. */
const rememberMs = 60_000;
/** Better ways than the one that works are tried again after this long, alongside. */
const retryMs = 30_000;
const maxPeers = 4_096;

interface Known {
  readonly way: Way;
  readonly at: number;
  /** When better ways were last tried. */
  betterAt: number;
}

const rank: Record<Way, number> = { direct: 0, reverse: 1, relay: 2 };

/**
 * Ways are tried in the order direct, reverse, relay with a head start for each, except that
 * 1. the one that worked within the last minute starts at once, so that a stream does not wait for what fails;
 * 2. better ones start with it when they have not been tried for half a minute: whichever comes first carries
 *    the stream, and what works of them is known for the next;
 * 3. the others follow with their head starts in case it fails.
 * @param now monotonic ms
 */
export function createPathMemory(now: () => number): PathMemory {
  const known = new Map<NodeId, Known>();
  return {
    plan(peer, possible) {
      const entry = known.get(peer);
      const ways = [...possible].sort((a, b) => rank[a] - rank[b]);
      if (!entry || now() - entry.at >= rememberMs || !possible.includes(entry.way)) return staged(ways);
      // 1.
      const first = { way: entry.way, afterMs: 0 };
      const retry = now() - entry.betterAt >= retryMs;
      const others = ways.filter((way) => way !== entry.way);
      // 2.
      const alongside = others.filter((way) => retry && rank[way] < rank[entry.way]);
      if (alongside.length > 0) entry.betterAt = now();
      // 3.
      const later = others.filter((way) => !alongside.includes(way));
      return [
        first,
        ...alongside.map((way) => ({ way, afterMs: 0 })),
        ...later.map((way, index) => ({ way, afterMs: directMs + index * reverseMs })),
      ];
    },
    works(peer, way) {
      const before = known.get(peer);
      // The longest unused goes.
      known.delete(peer);
      const [oldest] = known.keys();
      if (known.size >= maxPeers && oldest) known.delete(oldest);
      known.set(peer, { way, at: now(), betterAt: before?.way === way ? before.betterAt : now() });
    },
  };
}

function staged(ways: readonly Way[]): PlannedWay[] {
  return ways.map((way, index) => ({ way, afterMs: index === 0 ? 0 : directMs + (index - 1) * reverseMs }));
}
