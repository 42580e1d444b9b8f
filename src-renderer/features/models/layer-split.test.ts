import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  boundaries,
  boundaryAfterKey,
  boundaryLimits,
  moveBoundary,
  percentages,
  setLayers,
  shareOut,
} from './layer-split.ts';

const total = (list: readonly number[]): number => list.reduce((sum, value) => sum + value, 0);

/** Machines that each have at least their least; the first may lead without layers. */
const split = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 2, maxLength: 8 }).chain((layers) =>
  fc.boolean().map((leads) => ({
    layers: leads ? [layers[0] === 1 ? 0 : (layers[0] ?? 0), ...layers.slice(1)] : layers,
    mins: layers.map((_, index) => (leads && index === 0 ? 0 : 1)),
  })),
);

describe('any edit of a split', () => {
  it('keeps the number of layers and every machine its least', () => {
    fc.assert(
      fc.property(
        split,
        fc.nat(8),
        fc.integer({ min: -50, max: 600 }),
        fc.boolean(),
        ({ layers, mins }, index, value, drags) => {
          const after = drags
            ? moveBoundary(layers, mins, index, value)
            : setLayers(layers, mins, index, value);
          expect(total(after)).toBe(total(layers));
          after.forEach((count, place) => expect(count).toBeGreaterThanOrEqual(mins[place] ?? 0));
        },
      ),
    );
  });

  it('gives what was asked for whenever the others can spare it', () => {
    fc.assert(
      fc.property(split, fc.nat(7), fc.nat(500), ({ layers, mins }, place, value) => {
        const index = place % layers.length;
        const most = total(layers) - total(mins) + (mins[index] ?? 0);
        const after = setLayers(layers, mins, index, value);
        expect(after[index]).toBe(Math.min(Math.max(value, mins[index] ?? 0), most));
      }),
    );
  });

  it('by dragging changes only the two machines beside the boundary', () => {
    fc.assert(
      fc.property(split, fc.nat(7), fc.nat(500), ({ layers, mins }, place, to) => {
        const index = place % (layers.length - 1);
        const after = moveBoundary(layers, mins, index, to);
        after.forEach((count, other) => {
          if (other !== index && other !== index + 1) expect(count).toBe(layers[other]);
        });
        const limits = boundaryLimits(layers, mins, index);
        expect(boundaries(after)[index]).toBe(Math.min(Math.max(to, limits.from), limits.to));
      }),
    );
  });

  it('by key is one that a drag could make, and Home and End are its limits', () => {
    fc.assert(
      fc.property(
        split,
        fc.nat(7),
        fc.constantFrom('ArrowLeft', 'ArrowRight', 'PageUp', 'PageDown', 'Home', 'End'),
        ({ layers, mins }, place, key) => {
          const index = place % (layers.length - 1);
          const to = boundaryAfterKey(key, layers, mins, index) ?? Number.NaN;
          const after = boundaries(moveBoundary(layers, mins, index, to))[index] ?? Number.NaN;
          const limits = boundaryLimits(layers, mins, index);
          expect(after).toBeGreaterThanOrEqual(limits.from);
          expect(after).toBeLessThanOrEqual(limits.to);
          if (key === 'Home') expect(after).toBe(limits.from);
          if (key === 'End') expect(after).toBe(limits.to);
        },
      ),
    );
  });
});

describe('sharing out', () => {
  it('gives away all layers and every machine its least', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 1e12, noNaN: true }), { minLength: 1, maxLength: 10 }),
        fc.integer({ min: 10, max: 500 }),
        (weights, layers) => {
          const counts = shareOut(
            layers,
            weights,
            weights.map(() => 1),
          );
          expect(total(counts)).toBe(layers);
          counts.forEach((count) => expect(count).toBeGreaterThanOrEqual(1));
        },
      ),
    );
  });

  it('keeps to the weights', () => {
    expect(shareOut(10, [70, 30], [1, 1])).toEqual([7, 3]);
    expect(shareOut(33, [1, 1], [0, 1])).toEqual([17, 16]);
    expect(shareOut(9, [0, 0], [0, 1])).toEqual([5, 4]);
    expect(shareOut(100, [1e15, 1], [1, 1])).toEqual([99, 1]);
    expect(shareOut(2, [1, 1, 1], [1, 1, 1])).toEqual([1, 1, 0]);
  });
});

describe('examples', () => {
  it('takes from the machine after it first, then from those before', () => {
    expect(setLayers([4, 3, 3], [1, 1, 1], 0, 6)).toEqual([6, 1, 3]);
    expect(setLayers([4, 3, 3], [1, 1, 1], 0, 7)).toEqual([7, 1, 2]);
    expect(setLayers([4, 3, 3], [1, 1, 1], 2, 6)).toEqual([3, 1, 6]);
    expect(setLayers([4, 3, 3], [0, 1, 1], 1, 1)).toEqual([4, 1, 5]);
    expect(setLayers([9], [1], 0, 4)).toEqual([9]);
    expect(setLayers([5, 4], [0, 1], 0, Number.NaN)).toEqual([5, 4]);
  });

  it('says percent', () => {
    expect(percentages([7, 3])).toEqual([70, 30]);
    expect(percentages([1, 2])).toEqual([33.3, 66.7]);
    expect(percentages([0, 0])).toEqual([0, 0]);
  });

  it('leaves other keys alone', () => {
    expect(boundaryAfterKey('Enter', [5, 4], [1, 1], 0)).toBeNull();
    expect(boundaryAfterKey('Home', [5, 4], [1, 1], 3)).toBeNull();
  });
});
