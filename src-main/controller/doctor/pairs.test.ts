import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { fullMatrixNodes, measureInTurns, pairKey, pairsToMeasure, type Pair } from './pairs.ts';

const nodes = (count: number): NodeId[] => Array.from({ length: count }, (_, index) => `n${index}` as NodeId);

describe('pairs', () => {
  it('are all of a small covey, and a bounded part of a large one in which nobody is left out', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 200 }), (count) => {
        const { pairs, sampled } = pairsToMeasure(nodes(count));
        expect(new Set(pairs.map((pair) => pairKey(...pair))).size).toBe(pairs.length);
        expect(pairs.every(([from, to]) => from !== to)).toBe(true);
        expect(sampled).toBe(count > fullMatrixNodes);
        expect(pairs).toHaveLength(sampled ? count * 4 : count * Math.max(0, count - 1));
        if (count < 2) return;
        expect(new Set(pairs.map(([from]) => from)).size).toBe(count);
        expect(new Set(pairs.map(([, to]) => to)).size).toBe(count);
      }),
    );
  });

  it('are measured each once, with no node in two at a time and no more at once than asked', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 9 }),
        fc.integer({ min: 1, max: 5 }),
        async (count, atOnce) => {
          const { pairs } = pairsToMeasure(nodes(count));
          const busy = new Set<NodeId>();
          const done: Pair[] = [];
          await measureInTurns(
            pairs,
            async (pair) => {
              for (const node of pair) {
                expect(busy.has(node)).toBe(false);
                busy.add(node);
              }
              expect(busy.size).toBeLessThanOrEqual(2 * atOnce);
              for (let turn = 0; turn < done.length % 3; turn += 1) await Promise.resolve();
              pair.forEach((node) => busy.delete(node));
              done.push(pair);
            },
            { atOnce, signal: new AbortController().signal },
          );
          expect(new Set(done.map((pair) => pairKey(...pair)))).toEqual(
            new Set(pairs.map((pair) => pairKey(...pair))),
          );
          expect(done).toHaveLength(pairs.length);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('that have not begun are left out when the time is over', async () => {
    const over = new AbortController();
    const begun: Pair[] = [];
    await measureInTurns(
      pairsToMeasure(nodes(4)).pairs,
      async (pair) => {
        begun.push(pair);
        if (begun.length === 3) over.abort();
      },
      { atOnce: 1, signal: over.signal },
    );
    expect(begun).toHaveLength(3);
  });
});
