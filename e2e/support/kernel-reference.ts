import { closeSync, openSync, writeSync } from 'node:fs';

/**
 * Numbers for kernels, and what kernels have to make of them, computed one after the other in plain JavaScript: exact
 * for integers, by compensated arithmetic for doubles. Nothing here is shared with the product.
 */
export interface Dataset {
  /** Little-endian words; read as i32, i64 and u64 they are as good as any. */
  readonly words: Uint32Array;
  readonly left: Float64Array;
  readonly right: Float64Array;
}

/** `bytes` for each of the three. xorshift32 (Marsaglia 2003). */
export function generateDataset(bytes: number, seed: number): Dataset {
  const words = new Uint32Array(bytes / 4);
  let state = seed | 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  for (let index = 0; index < words.length; index += 1) words[index] = next();
  // Both signs, and sizes over twelve orders of magnitude: plain addition would lose most digits of a sum.
  const doubles = (): Float64Array => {
    const values = new Float64Array(bytes / 8);
    for (let index = 0; index < values.length; index += 1) {
      values[index] = (next() / 2 ** 31 - 1) * 2 ** ((next() % 40) - 20);
    }
    return values;
  };
  return { words, left: doubles(), right: doubles() };
}

/** In pieces: one call writes no more than 2 GiB. */
export function writeNumbers(file: string, numbers: Uint32Array | Float64Array): void {
  const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  const descriptor = openSync(file, 'w', 0o600);
  try {
    for (let at = 0; at < bytes.length;)
      at += writeSync(descriptor, bytes, at, Math.min(bytes.length - at, 2 ** 26));
  } finally {
    closeSync(descriptor);
  }
}

/** Products and sums of so many halves of words stay below 2^53. */
const block = 2 ** 20;

export function sumI64(words: Uint32Array): bigint {
  const signed = new Int32Array(words.buffer, words.byteOffset, words.length);
  let total = 0n;
  for (let from = 0; from < words.length; from += block) {
    let low = 0;
    let high = 0;
    for (let index = from; index < Math.min(words.length, from + block); index += 2) {
      low += words[index] ?? 0;
      high += signed[index + 1] ?? 0;
    }
    total += BigInt(low) + (BigInt(high) << 32n);
  }
  return total;
}

export function xorU64(words: Uint32Array): bigint {
  let low = 0;
  let high = 0;
  for (let index = 0; index < words.length; index += 2) {
    low ^= words[index] ?? 0;
    high ^= words[index + 1] ?? 0;
  }
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}

/** Of the words as i32 with themselves. */
export function squaresI32(words: Uint32Array): bigint {
  const signed = new Int32Array(words.buffer, words.byteOffset, words.length);
  let total = 0n;
  for (let from = 0; from < signed.length; from += block) {
    let [high, middle, low] = [0, 0, 0];
    for (let index = from; index < Math.min(signed.length, from + block); index += 1) {
      const value = signed[index] ?? 0;
      const upper = value >> 16;
      const lower = value & 0xffff;
      high += upper * upper;
      middle += upper * lower;
      low += lower * lower;
    }
    total += (BigInt(high) << 32n) + (BigInt(middle) << 17n) + BigInt(low);
  }
  return total;
}

/** A sum, and how far it may be from the exact one before it was rounded: half units in the last place are not in it. */
export interface CompensatedSum {
  readonly value: number;
  readonly doubt: number;
}

const unit = 2 ** -53;

/** Neumaier 1974. What is lost of a term is known exactly; only adding that up is rounded, by a unit of it each time. */
export function sumF64(values: Float64Array): CompensatedSum {
  let [sum, lost, rounded] = [0, 0, 0];
  for (const value of values) {
    const next = sum + value;
    lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    rounded += Math.abs(lost);
    sum = next;
  }
  return { value: sum + lost, doubt: 2 * unit * rounded };
}

/** Ogita, Rump and Oishi 2005 (Dot2), products split by Dekker's method. */
export function dotF64(left: Float64Array, right: Float64Array): CompensatedSum {
  const splitter = 2 ** 27 + 1;
  let [sum, lost, rounded] = [0, 0, 0];
  for (let index = 0; index < left.length; index += 1) {
    const a = left[index] ?? 0;
    const b = right[index] ?? 0;
    const product = a * b;
    const ac = splitter * a;
    const aHigh = ac - (ac - a);
    const aLow = a - aHigh;
    const bc = splitter * b;
    const bHigh = bc - (bc - b);
    const bLow = b - bHigh;
    const error = aLow * bLow - (product - aHigh * bHigh - aLow * bHigh - aHigh * bLow);
    const next = sum + product;
    const rest = (Math.abs(sum) >= Math.abs(product) ? sum - next + product : product - next + sum) + error;
    lost += rest;
    rounded += Math.abs(rest) + Math.abs(lost);
    sum = next;
  }
  return { value: sum + lost, doubt: 2 * unit * rounded };
}

/** How far a sum that was rounded once may be from this one, which was rounded once more than its doubt says. */
export function boundOf({ value, doubt }: CompensatedSum): number {
  return 2 * unit * Math.abs(value) + doubt;
}
