import { z } from 'zod';
import {
  addExactBinary,
  exactBinaryPattern,
  exactBinaryToNumber,
  formatExactBinary,
  parseExactBinary,
} from '../lib/exact-binary.ts';
import { err, ok, type Result } from '../lib/result.ts';
import { kernelTypes, type ElementType, type KernelCall } from './kernel-call.ts';

/**
 * Partial results of the native kernels: what one share of the input gives, in a form that combines without losing a
 * bit, so that the whole does not depend on how the input was divided. native/kernels/src/partial.c combines the same
 * way between threads. docs/kernels.md has the rules (bounds, NaN, empty input).
 *
 * Integers that may pass 2^53 are decimal strings, always; counts of elements are numbers.
 */
const count = z.number().int().nonnegative();
const decimal = z.string().regex(/^-?\d{1,40}$/, 'must be a whole number in decimal digits');
const exact = z.string().regex(exactBinaryPattern, 'must be an exact binary number, such as -5p-3');
const integerType = z.enum(['i32', 'i64']);
const floatType = z.enum(['f32', 'f64']);
const anyType = z.enum(['i32', 'i64', 'f32', 'f64', 'u8', 'u16', 'u32', 'u64']);

const integerTotalSchema = z.strictObject({
  kernel: z.enum(['sum', 'dot_product']),
  type: integerType,
  elements: count,
  /** Exact: 128 bits. */
  total: decimal,
});

const floatTotalSchema = z.strictObject({
  kernel: z.enum(['sum', 'dot_product']),
  type: floatType,
  elements: count,
  /** Of the blocks in which all elements (products) are finite; rounded once, at the very end. */
  finite: exact,
  nan: count,
  positiveInfinities: count,
  negativeInfinities: count,
});

const xorSchema = z.strictObject({
  kernel: z.literal('xor'),
  type: z.enum(['u8', 'u16', 'u32', 'u64']),
  elements: count,
  value: decimal,
});

const extremeSchema = z.strictObject({
  kernel: z.enum(['min', 'max']),
  type: anyType,
  elements: count,
  /** Elements that are not numbers: they do not take part. */
  nan: count,
  /** Decimal for integers, as JavaScript writes a number for floats; null: no element takes part. */
  value: z
    .string()
    // 0.0000012345678901234567 is the longest fraction that is written without an exponent.
    .regex(/^(?:-?Infinity|-?\d{1,22}(?:\.\d{1,22})?(?:e[+-]\d{1,3})?)$/, 'must be a number')
    .nullable(),
});

const histogramSchema = z.strictObject({
  kernel: z.literal('histogram'),
  type: anyType,
  elements: count,
  /** Below `low`, at or above `high`, and not a number. */
  under: count,
  over: count,
  nan: count,
  counts: z.array(count).min(1).max(4_096),
});

export const kernelPartialSchema = z.union([
  integerTotalSchema,
  floatTotalSchema,
  xorSchema,
  extremeSchema,
  histogramSchema,
]);
export type KernelPartial = z.infer<typeof kernelPartialSchema>;

/**
 * What a job answers. `sum`, `xor`, `dot_product`, `min`, `max`: the one value; null: `min` or `max` of nothing.
 * Integers above 2^53 - 1 are strings, and so are `NaN`, `Infinity` and `-Infinity`, which JSON has no numbers for.
 */
export type KernelValue = KernelScalar | null | HistogramValue;
export type KernelScalar = number | string;
export interface HistogramValue {
  readonly low: number;
  readonly high: number;
  /** Bin k has what is in [low + k * width, low + (k + 1) * width). */
  readonly counts: readonly number[];
  readonly under: number;
  readonly over: number;
  readonly nan: number;
}

const isFloat = (type: ElementType): type is 'f32' | 'f64' => type === 'f32' || type === 'f64';

/** @returns a partial result of this very call, or what is wrong with what came */
export function readPartial(call: KernelCall, value: unknown): Result<KernelPartial, string> {
  const parsed = kernelPartialSchema.safeParse(value);
  if (!parsed.success) {
    return err(`not a partial result of a kernel: ${parsed.error.issues[0]?.message ?? ''}`);
  }
  const { data } = parsed;
  if (data.kernel !== call.kernel || data.type !== call.type) {
    return err(
      `a partial result of ${data.kernel} over ${data.type} came for ${call.kernel} over ${call.type}`,
    );
  }
  if (data.kernel === 'histogram' && data.counts.length !== call.bins) {
    return err(`a histogram of ${data.counts.length} bins came for one of ${call.bins}`);
  }
  if ('finite' in data && !isSumOfDoubles(data.finite)) {
    return err(`${data.finite.slice(0, 32)} is not an exact sum of doubles`);
  }
  if (isExtreme(data) && !isFloat(data.type) && data.value !== null && !/^-?\d{1,20}$/.test(data.value)) {
    return err(`${data.value} is not a whole number`);
  }
  return ok(data);
}

/** Of at most 2^53 of them: multiples of the smallest one, 2^-1074, each below 2^1024. */
function isSumOfDoubles(text: string): boolean {
  const parsed = parseExactBinary(text);
  if (parsed === null) return false;
  const digits = parsed.integer.toString(2).replace('-', '').length;
  return parsed.exponent >= -1074 && digits + parsed.exponent <= 1024 + 53;
}

/**
 * The partial result of no element: combined with another it changes nothing.
 * @throws {RangeError} for a call that is not valid: its type is none that the kernel takes, or bins are missing
 */
export function emptyPartial(call: KernelCall): KernelPartial {
  const { kernel, type } = call;
  if (!kernelTypes[kernel].includes(type)) throw new RangeError(`${kernel} does not take ${type}`);
  switch (kernel) {
    case 'sum':
    case 'dot_product':
      return isFloat(type)
        ? {
            ...{ kernel, type, elements: 0, finite: '0' },
            ...{ nan: 0, positiveInfinities: 0, negativeInfinities: 0 },
          }
        : { kernel, type: type as 'i32', elements: 0, total: '0' };
    case 'xor':
      return { kernel, type: type as 'u8', elements: 0, value: '0' };
    case 'min':
    case 'max':
      return { kernel, type, elements: 0, nan: 0, value: null };
    case 'histogram': {
      if (call.bins === undefined) throw new RangeError('a histogram needs bins');
      const counts = Array.from({ length: call.bins }, () => 0);
      return { kernel, type, elements: 0, under: 0, over: 0, nan: 0, counts };
    }
  }
}

/**
 * The partial result of two shares together. Exact, so the order does not matter.
 * @throws {RangeError} when they are not of one call, or a count passes 2^53 - 1
 */
export function combinePartials(a: KernelPartial, b: KernelPartial): KernelPartial {
  const elements = add(a.elements, b.elements);
  if (a.kernel === b.kernel && a.type === b.type) {
    if ('total' in a && 'total' in b) {
      return { ...a, elements, total: String(BigInt(a.total) + BigInt(b.total)) };
    }
    if ('finite' in a && 'finite' in b) {
      return {
        ...a,
        elements,
        finite: formatExactBinary(addExactBinary(exactOf(a.finite), exactOf(b.finite))),
        nan: add(a.nan, b.nan),
        positiveInfinities: add(a.positiveInfinities, b.positiveInfinities),
        negativeInfinities: add(a.negativeInfinities, b.negativeInfinities),
      };
    }
    if (a.kernel === 'xor' && b.kernel === 'xor') {
      return { ...a, elements, value: String(BigInt(a.value) ^ BigInt(b.value)) };
    }
    if (a.kernel === 'histogram' && b.kernel === 'histogram' && a.counts.length === b.counts.length) {
      return {
        ...a,
        elements,
        under: add(a.under, b.under),
        over: add(a.over, b.over),
        nan: add(a.nan, b.nan),
        counts: a.counts.map((one, index) => add(one, b.counts[index] ?? 0)),
      };
    }
    if (isExtreme(a) && isExtreme(b)) {
      return { ...a, elements, nan: add(a.nan, b.nan), value: furthest(a, b.value) };
    }
  }
  throw new RangeError('partial results of different kernel calls do not combine');
}

type Extreme = z.infer<typeof extremeSchema>;

function isExtreme(partial: KernelPartial): partial is Extreme {
  return partial.kernel === 'min' || partial.kernel === 'max';
}

function furthest({ kernel, type, value }: Extreme, other: string | null): string | null {
  if (value === null || other === null) return value ?? other;
  const less = isFloat(type) ? Number(value) < Number(other) : BigInt(value) < BigInt(other);
  return less === (kernel === 'min') ? value : other;
}

function add(a: number, b: number): number {
  const sum = a + b;
  if (!Number.isSafeInteger(sum)) throw new RangeError('there are more than 2^53 - 1 elements');
  return sum;
}

function exactOf(text: string): NonNullable<ReturnType<typeof parseExactBinary>> {
  const parsed = parseExactBinary(text);
  if (parsed === null) throw new RangeError(`${text.slice(0, 32)} is not an exact binary number`);
  return parsed;
}

/** @throws {RangeError} for a partial result of another call */
export function kernelValue(call: KernelCall, partial: KernelPartial): KernelValue {
  if (partial.kernel === 'histogram') {
    if (call.low === undefined || call.high === undefined)
      throw new RangeError('a histogram needs low and high');
    const { counts, under, over, nan } = partial;
    return { low: call.low, high: call.high, counts, under, over, nan };
  }
  if ('total' in partial) return jsonInteger(partial.total);
  if ('finite' in partial) return floatTotal(partial);
  if (partial.value === null) return null;
  return isFloat(partial.type) ? jsonNumber(Number(partial.value)) : jsonInteger(partial.value);
}

/**
 * The value of a job from the partial results of its partitions, in any order. One after the other, so that thousands
 * of histograms need no more room than two.
 * @throws {RangeError} when one of them belongs to another call: check what comes from outside with `readPartial`
 */
export function combineKernel(call: KernelCall, partials: Iterable<KernelPartial>): KernelValue {
  let total = emptyPartial(call);
  for (const partial of partials) total = combinePartials(total, partial);
  return kernelValue(call, total);
}

/** As addition of doubles has it: a NaN, or infinities of both signs, give NaN. */
function floatTotal(partial: z.infer<typeof floatTotalSchema>): KernelScalar {
  const { nan, positiveInfinities, negativeInfinities, finite } = partial;
  if (nan > 0 || (positiveInfinities > 0 && negativeInfinities > 0)) return 'NaN';
  if (positiveInfinities > 0) return 'Infinity';
  if (negativeInfinities > 0) return '-Infinity';
  return jsonNumber(exactBinaryToNumber(exactOf(finite)));
}

function jsonNumber(value: number): KernelScalar {
  return Number.isFinite(value) ? value : String(value);
}

function jsonInteger(text: string): KernelScalar {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : text;
}

/** Bounds of the integer types, both included. */
const integerBounds: Readonly<Partial<Record<ElementType, readonly [bigint, bigint]>>> = {
  u8: [0n, 255n],
  u16: [0n, 65_535n],
  u32: [0n, 2n ** 32n - 1n],
  u64: [0n, 2n ** 64n - 1n],
  i32: [-(2n ** 31n), 2n ** 31n - 1n],
  i64: [-(2n ** 63n), 2n ** 63n - 1n],
};

/**
 * What the native kernel would refuse of a histogram's bins: for integers `low` and `high` are whole and within the
 * type (`high` may be one past it); for floats a bin is at least 16 steps of a double wide, so that its edges are
 * where they should be.
 * @returns the field and what is wrong with it, or null
 */
export function histogramProblem(
  call: KernelCall,
): { readonly field: string; readonly message: string } | null {
  const { type, bins, low, high } = call;
  if (bins === undefined || low === undefined || high === undefined) return null;
  if (!(low < high)) return { field: 'high', message: 'must be above `low`' };
  const bounds = integerBounds[type];
  if (bounds === undefined) {
    const step = Math.max(Math.abs(low), Math.abs(high)) * 2 ** -52;
    const width = (high - low) / bins;
    if (!Number.isFinite(high - low)) return { field: 'high', message: 'is too far from `low` for a double' };
    return width > 16 * step && width > 16 * 2 ** -1022
      ? null
      : { field: 'bins', message: 'are too narrow between `low` and `high`' };
  }
  for (const [field, value, last] of [
    ['low', low, bounds[1]],
    ['high', high, bounds[1] + 1n],
  ] as const) {
    if (!Number.isInteger(value) || BigInt(value) < bounds[0] || BigInt(value) > last) {
      return { field, message: `must be a whole number from ${bounds[0]} to ${last} for ${type}` };
    }
  }
  return null;
}
