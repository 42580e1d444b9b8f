import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { KernelCall } from './kernel-call.ts';
import {
  combineKernel,
  combinePartials,
  emptyPartial,
  histogramProblem,
  kernelValue,
  readPartial,
  type KernelPartial,
} from './kernel-results.ts';

const sum = (total: string): KernelPartial => ({ kernel: 'sum', type: 'i64', elements: 3, total });
const floats = (finite: string, special: object = {}): KernelPartial => ({
  ...{ kernel: 'sum', type: 'f64', elements: 2, finite },
  ...{ nan: 0, positiveInfinities: 0, negativeInfinities: 0, ...special },
});
const smallest = (type: 'f32' | 'i64', value: string | null): KernelPartial => ({
  ...{ kernel: 'min', type, elements: 1, nan: value === null ? 1 : 0, value },
});
const histogram: KernelCall = { kernel: 'histogram', type: 'f64', bins: 3, low: 0, high: 3 };

describe('totals', () => {
  const call: KernelCall = { kernel: 'sum', type: 'i64' };

  test('are exact beyond 64 bits; small ones are numbers, others strings', () => {
    const most = String(2n ** 63n - 1n);
    expect(combineKernel(call, [sum(most), sum(most), sum('2')])).toBe(String(2n ** 64n));
    expect(combineKernel(call, [sum(most), sum(`-${most}`), sum('-7')])).toBe(-7);
    expect(combineKernel(call, [])).toBe(0);
    expect(combinePartials(sum('1'), sum('2')).elements).toBe(6);
  });

  test('of floats are rounded once', () => {
    const half: KernelCall = { kernel: 'sum', type: 'f64' };
    // 2^53 + 1 + 1: neither 1 alone changes the double.
    expect(combineKernel(half, [floats('1p53'), floats('1p0'), floats('1p0')])).toBe(2 ** 53 + 2);
    expect(combineKernel(half, [floats('1p1023'), floats('1p1023'), floats('-1p1023')])).toBe(2 ** 1023);
    expect(combineKernel(half, [floats('1p1023'), floats('1p1023')])).toBe('Infinity');
  });

  test.each([
    [{ nan: 1 }, 'NaN'],
    [{ positiveInfinities: 2 }, 'Infinity'],
    [{ negativeInfinities: 1 }, '-Infinity'],
    [{ positiveInfinities: 1, negativeInfinities: 1 }, 'NaN'],
  ])('of floats with %j are %s', (special, value) =>
    expect(combineKernel({ kernel: 'sum', type: 'f64' }, [floats('1p0'), floats('0', special)])).toBe(value),
  );
});

test('xor of 64 bits', () => {
  const part = (value: string): KernelPartial => ({ kernel: 'xor', type: 'u64', elements: 1, value });
  const call: KernelCall = { kernel: 'xor', type: 'u64' };
  expect(combineKernel(call, [part(String(2n ** 63n)), part('5')])).toBe(String(2n ** 63n + 5n));
  expect(combineKernel(call, [part('9'), part('5')])).toBe(12);
});

test('the smallest and the largest; shares without a number change nothing', () => {
  expect(
    combineKernel({ kernel: 'min', type: 'i64' }, [
      smallest('i64', null),
      smallest('i64', '-9223372036854775807'),
      smallest('i64', '-9223372036854775808'),
    ]),
  ).toBe('-9223372036854775808');
  expect(
    combineKernel({ kernel: 'min', type: 'f32' }, [smallest('f32', '1e-7'), smallest('f32', 'Infinity')]),
  ).toBe(1e-7);
  expect(combineKernel({ kernel: 'min', type: 'f32' }, [smallest('f32', '-Infinity')])).toBe('-Infinity');
  expect(combineKernel({ kernel: 'min', type: 'f32' }, [smallest('f32', null)])).toBeNull();
  const largest = { ...smallest('i64', '3'), kernel: 'max' } as KernelPartial;
  expect(
    combineKernel({ kernel: 'max', type: 'i64' }, [largest, { ...largest, value: '10' } as KernelPartial]),
  ).toBe(10);
});

test('histograms add bin by bin', () => {
  const part: KernelPartial = {
    ...{ kernel: 'histogram', type: 'f64', elements: 10, counts: [1, 2, 3] },
    ...{ under: 1, over: 2, nan: 1 },
  };
  expect(combineKernel(histogram, [part, part])).toEqual({
    ...{ low: 0, high: 3, counts: [2, 4, 6], under: 2, over: 4, nan: 2 },
  });
});

describe('what comes from outside', () => {
  test.each([
    [
      { kernel: 'sum', type: 'i64' },
      { ...sum('1'), total: '1.5' },
    ],
    [
      { kernel: 'sum', type: 'i64' },
      { ...sum('1'), more: 1 },
    ],
    [{ kernel: 'sum', type: 'i32' }, sum('1')],
    [{ kernel: 'dot_product', type: 'i64' }, sum('1')],
    [{ kernel: 'sum', type: 'f64' }, floats('2p0')],
    [{ kernel: 'sum', type: 'f64' }, floats('zzz')],
    [{ kernel: 'sum', type: 'f64' }, floats('1p-1075')],
    [{ kernel: 'sum', type: 'f64' }, floats('-1p1077')],
    [{ kernel: 'min', type: 'i64' }, smallest('i64', '1.5')],
    [{ kernel: 'min', type: 'i64' }, smallest('i64', 'Infinity')],
    [{ kernel: 'min', type: 'f32' }, smallest('f32', 'NaN')],
    [histogram, { ...emptyPartial(histogram), counts: [1] }],
    [histogram, null],
  ] as const)('%j refuses %j', (call, value) => expect(readPartial(call, value).ok).toBe(false));

  test.each([
    [{ kernel: 'sum', type: 'i64' }, sum('-1')],
    [{ kernel: 'sum', type: 'f64' }, floats('-5p-3')],
    [{ kernel: 'sum', type: 'f64' }, floats('1p-1074')],
    [{ kernel: 'sum', type: 'f64' }, floats('1p1076')],
    [{ kernel: 'min', type: 'f32' }, smallest('f32', '1.1754943508222875e-38')],
    [histogram, emptyPartial(histogram)],
  ] as const)('%j takes %j', (call, value) => expect(readPartial(call, value)).toEqual({ ok: true, value }));
});

test('the smallest may be any double, however it is written', () => {
  const call: KernelCall = { kernel: 'min', type: 'f32' };
  const anyDouble = fc.oneof(fc.double({ noNaN: true }), fc.double({ noNaN: true, min: -1e-3, max: 1e-3 }));
  const taken = (value: number): void => {
    const read = readPartial(call, smallest('f32', String(value)));
    expect(read.ok && kernelValue(call, read.value)).toBe(Number.isFinite(value) ? value : String(value));
  };
  // As long as it gets without an exponent.
  taken(-1.2345678901234567e-6);
  fc.assert(
    fc.property(anyDouble, (value) => taken(value + 0)),
    { numRuns: 2_000 },
  );
});

test('parts of different calls do not combine', () => {
  const other: KernelPartial = { ...sum('1'), type: 'i32' } as KernelPartial;
  expect(() => combinePartials(sum('1'), other)).toThrow(RangeError);
  expect(() => combineKernel({ kernel: 'xor', type: 'u8' }, [sum('1')])).toThrow(RangeError);
  expect(() => emptyPartial({ kernel: 'xor', type: 'f64' })).toThrow('xor does not take f64');
  expect(() => emptyPartial({ kernel: 'histogram', type: 'f64' })).toThrow(RangeError);
  expect(() => kernelValue({ kernel: 'histogram', type: 'f64', bins: 3 }, emptyPartial(histogram))).toThrow(
    RangeError,
  );
});

test.each([
  [{ type: 'f64', bins: 4, low: 0, high: 1 }, null],
  [{ type: 'f64', bins: 4, low: 1, high: 1 }, 'high'],
  [{ type: 'f64', bins: 4, low: -1.7e308, high: 1.7e308 }, 'high'],
  [{ type: 'f32', bins: 4096, low: 1, high: 1 + 2 ** -45 }, 'bins'],
  [{ type: 'f64', bins: 4, low: 0, high: 1e-310 }, 'bins'],
  [{ type: 'u8', bins: 256, low: 0, high: 256 }, null],
  [{ type: 'u8', bins: 4, low: -1, high: 256 }, 'low'],
  [{ type: 'u8', bins: 4, low: 0, high: 257 }, 'high'],
  [{ type: 'i32', bins: 4, low: 0.5, high: 9 }, 'low'],
  [{ type: 'i64', bins: 4, low: -(2 ** 63), high: 2 ** 63 }, null],
  [{ type: 'u64', bins: 4, low: 0, high: 2 ** 65 }, 'high'],
] as const)('a histogram of %j: %s', (call, field) =>
  expect(histogramProblem({ kernel: 'histogram', ...call })?.field ?? null).toBe(field),
);
