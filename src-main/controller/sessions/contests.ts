import type { NodeId } from '#shared/lib/ids.ts';

/** A session that said hello for a node whose session is open with another run of the program. */
export interface Challenger {
  /** The node is free, or its session is silent: this one takes its place. */
  readonly admit: () => void;
  /** Both live: two machines use one key. */
  readonly refuse: () => void;
}

/**
 * Who is a node when two sessions claim it. A restart closes the old session, or leaves it silent; a copied data
 * directory leaves both speaking. So the newcomer waits until
 * 1. the open session ends: it is admitted at once;
 * 2. the open session stays silent for `silenceMs`: it is admitted;
 * 3. the open session sends a frame and is still there after `confirmMs` (what a program sent before it ended may
 *    arrive late): it is refused.
 * Several may wait. The first to be admitted is the open session for the others.
 */
export interface Contests {
  /** Returns how to leave again. */
  challenge(nodeId: NodeId, challenger: Challenger): () => void;
  /** The open session sent something. */
  heard(nodeId: NodeId): void;
  /** The open session is over. */
  ended(nodeId: NodeId): void;
  /** Nobody waits any more; nothing is called. */
  clear(): void;
}

export interface ContestTimings {
  readonly silenceMs: number;
  readonly confirmMs: number;
}

export const contestTimings: ContestTimings = { silenceMs: 3_000, confirmMs: 300 };

interface Waiting {
  readonly challenger: Challenger;
  incumbentLives: boolean;
  timer: NodeJS.Timeout;
}

export function createContests(timings: ContestTimings = contestTimings): Contests {
  const contests = new Map<NodeId, Set<Waiting>>();

  const leave = (nodeId: NodeId, waiting: Waiting): boolean => {
    clearTimeout(waiting.timer);
    const contest = contests.get(nodeId);
    const was = contest?.delete(waiting) ?? false;
    if (contest?.size === 0) contests.delete(nodeId);
    return was;
  };

  const await_ = (nodeId: NodeId, waiting: Waiting, ms: number): NodeJS.Timeout =>
    setTimeout(() => {
      if (waiting.incumbentLives) {
        if (leave(nodeId, waiting)) waiting.challenger.refuse();
      } else admit(nodeId, waiting);
    }, ms);

  /** The others now wait for this one to end or fall silent. */
  const admit = (nodeId: NodeId, waiting: Waiting): void => {
    if (!leave(nodeId, waiting)) return;
    for (const other of contests.get(nodeId) ?? []) {
      clearTimeout(other.timer);
      other.incumbentLives = false;
      other.timer = await_(nodeId, other, timings.silenceMs);
    }
    waiting.challenger.admit();
  };

  return {
    challenge(nodeId, challenger) {
      const waiting: Waiting = { challenger, incumbentLives: false, timer: undefined as never };
      waiting.timer = await_(nodeId, waiting, timings.silenceMs);
      const contest = contests.get(nodeId);
      if (contest) contest.add(waiting);
      else contests.set(nodeId, new Set([waiting]));
      return () => void leave(nodeId, waiting);
    },
    heard(nodeId) {
      for (const waiting of contests.get(nodeId) ?? []) {
        if (waiting.incumbentLives) continue;
        waiting.incumbentLives = true;
        clearTimeout(waiting.timer);
        waiting.timer = await_(nodeId, waiting, timings.confirmMs);
      }
    },
    ended(nodeId) {
      const [first] = contests.get(nodeId) ?? [];
      if (first) admit(nodeId, first);
    },
    clear() {
      for (const contest of contests.values()) for (const waiting of contest) clearTimeout(waiting.timer);
      contests.clear();
    },
  };
}
