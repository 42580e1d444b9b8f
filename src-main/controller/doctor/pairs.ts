import type { NodeId } from '#shared/lib/ids.ts';

export type Pair = readonly [from: NodeId, to: NodeId];

/** Up to here every pair is measured in both directions. */
export const fullMatrixNodes = 16;

export function pairKey(from: NodeId, to: NodeId): string {
  return `${from} ${to}`;
}

/**
 * The ordered pairs to measure: all of them for up to 16 nodes; for more, each node with its two successors in a
 * ring, both ways, so that every node is seen from two sides.
 */
export function pairsToMeasure(nodes: readonly NodeId[]): {
  readonly pairs: Pair[];
  readonly sampled: boolean;
} {
  if (nodes.length <= fullMatrixNodes) {
    const pairs = nodes.flatMap((from) => nodes.filter((to) => to !== from).map((to): Pair => [from, to]));
    return { pairs, sampled: false };
  }
  const pairs = nodes.flatMap((from, index) =>
    [1, 2].flatMap((step): Pair[] => {
      const to = nodes[(index + step) % nodes.length] as NodeId;
      return [
        [from, to],
        [to, from],
      ];
    }),
  );
  return { pairs, sampled: true };
}

/**
 * Works off pairs so that no node takes part in two measurements at once: they would measure each other. Ends when
 * all are done or the signal aborts; then what has not begun is left out. `measure` must not reject.
 */
export async function measureInTurns(
  pairs: readonly Pair[],
  measure: (pair: Pair) => Promise<void>,
  limits: { readonly atOnce: number; readonly signal: AbortSignal },
): Promise<void> {
  const waiting = [...pairs];
  const busy = new Set<NodeId>();
  const running = new Set<Promise<void>>();
  while (waiting.length > 0 && !limits.signal.aborted) {
    const next =
      running.size < limits.atOnce ? waiting.findIndex(([from, to]) => !busy.has(from) && !busy.has(to)) : -1;
    if (next === -1) {
      await Promise.race(running);
      continue;
    }
    const [pair] = waiting.splice(next, 1) as [Pair];
    pair.forEach((node) => busy.add(node));
    const task: Promise<void> = measure(pair).finally(() => {
      pair.forEach((node) => busy.delete(node));
      running.delete(task);
    });
    running.add(task);
  }
  await Promise.all(running);
}
