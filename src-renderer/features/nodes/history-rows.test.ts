import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chartRows, mergeSamples, windowMs, type NodeSample } from './history-rows.ts';

const sample = (at: number, cpuLoad: number | null = 0.5): NodeSample => ({
  at,
  cpuLoad,
  ramAvailableBytes: 1,
  receiveBytesPerS: null,
  sendBytesPerS: null,
  devices: [],
  celsius: null,
});
const cpu = (of: NodeSample): Record<string, number | null> => ({ cpu: of.cpuLoad });

describe('samples of a machine', () => {
  it('stay in order, once each, within the window', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 3 * windowMs })),
        fc.array(fc.integer({ min: 0, max: 3 * windowMs })),
        (old, added) => {
          const now = 2 * windowMs;
          const merged = mergeSamples(
            old.map((at) => sample(at)),
            added.map((at) => sample(at)),
            now,
          );
          const times = merged.map(({ at }) => at);
          expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
          expect(times.every((at) => at >= now - windowMs)).toBe(true);
          const recent = [...old, ...added].filter((at) => at >= now - windowMs && at <= now);
          expect(times).toEqual(expect.arrayContaining(recent));
        },
      ),
    );
  });

  it('of the future are another clock and left out', () => {
    expect(mergeSamples([], [sample(100_000)], 1)).toEqual([]);
  });
});

describe('rows of a chart', () => {
  it('have a hole where nothing was heard', () => {
    const rows = chartRows([sample(0), sample(2_000), sample(60_000)], cpu);
    expect(rows).toEqual([
      { at: 0, cpu: 0.5 },
      { at: 2_000, cpu: 0.5 },
      { at: 2_001, cpu: null },
      { at: 60_000, cpu: 0.5 },
    ]);
  });
});
