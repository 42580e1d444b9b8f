import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nodeId } from './fixtures.ts';
import { definition } from './job-fixtures.ts';
import { equalRange, initialPartitions, shareOut, wholeParts, without } from './job-shares.ts';
import type { Segment } from './job-state.ts';

const size = (segments: readonly Segment[]): number => segments.reduce((sum, s) => sum + s.to - s.from, 0);

/** Disjoint segments in order. */
const rests = fc
  .array(fc.record({ gap: fc.nat(5), length: fc.integer({ min: 1, max: 1_000 }) }), { maxLength: 8 })
  .map((steps) => {
    let from = 0;
    return steps.map(({ gap, length }): Segment => {
      const start = from + gap;
      from = start + length;
      return { from: start, to: from, owner: null };
    });
  });

describe('dividing a job', () => {
  test('equal ranges cover the whole, in order, and differ by one unit at most', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 2 ** 46 }), (count, total) => {
        let reached = 0;
        const sizes = new Set<number>();
        for (let index = 0; index < count; index += 1) {
          const { from, to } = equalRange(index, count, total);
          expect(from).toBe(reached);
          reached = to;
          sizes.add(to - from);
        }
        expect(reached).toBe(total);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test('there are no more counted ranges than units, and without ranges as many as asked for', () => {
    const counted = (count: number, ranged: boolean, total: number) =>
      initialPartitions(definition({ division: { mode: 'counted', count, ranged } }), total).length;
    expect(counted(100, true, 7)).toBe(7);
    expect(counted(100, true, 0)).toBe(1);
    expect(counted(100, false, 7)).toBe(100);
  });

  test('whole parts add up and are off by less than one', () => {
    fc.assert(
      fc.property(
        fc.nat(100_000),
        fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 20 }),
        (total, weights) => {
          const sum = weights.reduce((a, b) => a + b, 0);
          const parts = wholeParts(
            total,
            weights.map((weight) => weight / sum),
          );
          expect(parts.reduce((a, b) => a + b, 0)).toBe(total);
          parts.forEach((part, index) => {
            expect(Math.abs(part - (total * (weights[index] ?? 0)) / sum)).toBeLessThan(1.001);
          });
        },
      ),
    );
  });

  test('shared out by hand, nothing of the rest is lost or given twice', () => {
    const digits = ['a', 'b', 'c', 'd'];
    fc.assert(
      fc.property(
        rests,
        fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 4 }),
        (rest, weights) => {
          const shares = weights.map((weight, index) => ({ nodeId: nodeId(digits[index] ?? 'e'), weight }));
          const segments = shareOut(rest, { mode: 'manual', shares }, [], false);
          expect(segments.every(({ owner }) => owner !== null)).toBe(true);
          const whole = size(rest);
          const sum = weights.reduce((a, b) => a + b, 0);
          for (const { nodeId: id, weight } of shares) {
            const own = size(segments.filter(({ owner }) => owner === id));
            expect(Math.abs(own - (whole * weight) / sum)).toBeLessThan(1.001);
          }
          let left: Segment[] = rest.map((segment) => ({ ...segment }));
          for (const { from, to } of segments) {
            const before = size(left);
            left = without(left, from, to);
            expect(before - size(left)).toBe(to - from);
          }
          expect(left).toEqual([]);
        },
      ),
    );
  });
});
