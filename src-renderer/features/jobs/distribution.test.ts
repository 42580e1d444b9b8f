import { expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import type { ShareView } from '#shared/domain/job.ts';
import { currentShares, evenShares, isSame, toDistribution, toggleShare } from './distribution.ts';

const share = (name: string, targetPercent: number | null, whyNot: string | null = null): ShareView => ({
  nodeId: name as NodeId,
  nodeName: name,
  targetPercent,
  donePercent: 0,
  doneUnits: 0,
  running: 0,
  unitsPerS: null,
  whyNot,
});

it('begins with what the job does now', () => {
  const shares = [share('b', 25), share('a', 75), share('c', null, 'is paused')];
  expect(currentShares(shares, false)).toEqual({ nodes: ['a', 'b'], percents: [75, 25] });
  // By hand a machine keeps its share also while it cannot work.
  expect(currentShares([share('a', 60), share('b', 40, 'is lost')], true).percents).toEqual([60, 40]);
  expect(currentShares([share('a', null), share('b', null)], false).percents).toEqual([50, 50]);
});

it('always adds up to 100, whoever comes and goes', () => {
  let shares = evenShares(['a', 'b', 'c']);
  for (const node of ['b', 'd', 'a', 'a', 'e', 'b']) {
    shares = toggleShare(shares, node);
    expect(shares.percents.reduce((sum, percent) => sum + percent, 0)).toBe(100);
    expect(Math.min(...shares.percents)).toBeGreaterThan(0);
  }
  expect(toggleShare({ nodes: ['a'], percents: [100] }, 'a').nodes).toEqual(['a']);
});

it('sends what is not nothing, and knows when nothing has changed', () => {
  const shares = { nodes: ['a', 'b', 'c'], percents: [60, 0, 40] };
  expect(toDistribution(shares)).toEqual({
    mode: 'manual',
    shares: [
      { node: 'a', percent: 60 },
      { node: 'c', percent: 40 },
    ],
  });
  expect(isSame(shares, { nodes: ['c', 'a'], percents: [40, 60] })).toBe(true);
  expect(isSame(shares, { nodes: ['c', 'a'], percents: [41, 59] })).toBe(false);
});
