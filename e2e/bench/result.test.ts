import { describe, expect, it } from 'vitest';
import { describeMachine, figure, formatResult, median } from './result.ts';

describe('bench results', () => {
  it('takes medians', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(median([])).toBeNaN();
  });

  it.each([
    [0, '0.00'],
    [0.0123, '0.0123'],
    [1.5, '1.50'],
    [31.23, '31.2'],
    [1762.4, '1762'],
    [NaN, 'NaN'],
  ])('prints %d as %s', (value, text) => expect(figure(value)).toBe(text));

  it('shows raw figures and whether targets are reached', () => {
    const text = formatResult({
      name: 'gateway',
      ratio: 0.9,
      ratioOf: 'ours / direct; higher is better',
      ours: 90,
      theirs: 100,
      unit: 'tokens/s',
      runs: [
        { side: 'direct', figures: { tokensPerS: 100 } },
        { side: 'ours', figures: { tokensPerS: 90, cpuS: 1 } },
      ],
      more: { pipeRatio: 0.5 },
      targets: { ratio: { atLeast: 0.85 }, pipeRatio: { atLeast: 1 } },
      machine: describeMachine(),
    });
    expect(text).toContain('  1    direct         100');
    expect(text).toContain('ratio  0.900  (ok: at least 0.85)');
    expect(text).toContain('pipeRatio  0.500  (MISSED: at least 1)');
  });
});
