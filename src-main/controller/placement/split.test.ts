import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  assignLayers,
  CPU,
  engineAssignment,
  engineSplitArguments,
  largestRemainder,
  unitCount,
} from './split.ts';

const weights = fc.array(fc.double({ min: 1e-6, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 15 });
const layerCounts = fc.integer({ min: 1, max: 512 });

/** How many units each device got, CPU first. */
function counted(assignment: readonly number[], devices: number): number[] {
  return Array.from(
    { length: devices + 1 },
    (_, index) => assignment.filter((at) => at === index - 1).length,
  );
}

describe('engineAssignment', () => {
  it('does what the engine was seen to do', () => {
    // -ngl 9 of 17 units with one remote device: half and half.
    expect(counted(engineAssignment(16, 9, [1]), 1)).toEqual([8, 9]);
    expect(counted(engineAssignment(16, 99, [60, 40]), 2)).toEqual([0, 11, 6]);
    expect(counted(engineAssignment(16, 0, []), 0)).toEqual([17]);
    expect(counted(engineAssignment(16, 99, []), 0)).toEqual([17]);
  });
});

describe('engineSplitArguments', () => {
  it('makes the engine place exactly the layout asked for', () => {
    fc.assert(
      fc.property(
        fc.nat(100),
        fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 10 }),
        (leaderCpu, local, remote) => {
          const units = [leaderCpu, ...local, ...remote].reduce((sum, count) => sum + count, 0);
          fc.pre(units >= 2);
          const split = engineSplitArguments({
            leaderCpu,
            leaderDevices: local.map((count, index) => ({ id: `GPU${index}`, units: count })),
            stages: remote.map((count) => ({ units: count })),
          });
          const assignment = engineAssignment(units - 1, split.gpuLayers, split.tensorSplit);
          expect(counted(assignment, local.length + remote.length)).toEqual([leaderCpu, ...local, ...remote]);
          expect(assignment).toEqual([...assignment].sort((a, b) => a - b));
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('uses no device when everything stays on the CPU of the leader', () => {
    const split = engineSplitArguments({ leaderCpu: 9, leaderDevices: [], stages: [] });
    expect(split).toEqual({ gpuLayers: 0, localDevices: [], tensorSplit: [] });
    expect(engineAssignment(8, split.gpuLayers, split.tensorSplit)).toEqual(new Array(9).fill(CPU));
  });
});

describe('largestRemainder', () => {
  it('gives everything out, nobody more than one off the exact share', () => {
    fc.assert(
      fc.property(fc.nat(600), weights, (total, shares) => {
        const counts = largestRemainder(total, shares);
        if (counts === null) throw new Error('not shared out');
        const sum = shares.reduce((partial, share) => partial + share, 0);
        expect(counts.reduce((partial, count) => partial + count, 0)).toBe(total);
        for (const [index, count] of counts.entries()) {
          expect(Math.abs(count - (total * (shares[index] as number)) / sum)).toBeLessThan(1 + 1e-6);
        }
      }),
    );
  });

  it('does not depend on the scale of the weights', () => {
    fc.assert(
      fc.property(
        fc.nat(600),
        fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 1 }),
        (total, shares) => {
          expect(largestRemainder(total, shares)).toEqual(
            largestRemainder(
              total,
              shares.map((share) => share * 1024),
            ),
          );
        },
      ),
    );
  });

  it('keeps to caps and gives the rest to the others, or says that it cannot', () => {
    fc.assert(
      fc.property(
        fc.nat(100),
        fc.array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.nat(60)), { minLength: 1, maxLength: 8 }),
        (total, shares) => {
          const caps = shares.map(([, cap]) => cap);
          const counts = largestRemainder(
            total,
            shares.map(([weight]) => weight),
            caps,
          );
          const room = caps.reduce((sum, cap) => sum + cap, 0);
          if (room < total) {
            expect(counts).toBeNull();
            return;
          }
          expect(counts?.reduce((sum, count) => sum + count, 0)).toBe(total);
          for (const [index, count] of (counts ?? []).entries())
            expect(count).toBeLessThanOrEqual(caps[index] as number);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('shares 60/40 and thirds as people expect', () => {
    expect(largestRemainder(17, [60, 40])).toEqual([10, 7]);
    expect(largestRemainder(10, [1, 1, 1])).toEqual([4, 3, 3]);
    expect(largestRemainder(6, [99, 1])).toEqual([6, 0]);
    expect(largestRemainder(9, [1e308, 1e308])).toEqual([5, 4]);
  });
});

describe('assignLayers', () => {
  it('covers every unit once, in order', () => {
    fc.assert(
      fc.property(layerCounts, weights, (layerCount, shares) => {
        let next = 0;
        for (const range of assignLayers(layerCount, shares)) {
          expect(range.from).toBe(next);
          expect(range.to).toBeGreaterThanOrEqual(range.from);
          next = range.to;
        }
        expect(next).toBe(unitCount(layerCount));
      }),
    );
  });
});
