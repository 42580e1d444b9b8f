/**
 * Binary numbers of any length: `integer * 2^exponent`. Every finite double is one, and so is every sum of doubles,
 * which is why sums of parts, added in any order, come out the same to the last bit.
 *
 * As text: `[-]HEX p EXPONENT` without the space (`-5p-3` is -0.625), the integer odd; zero is `0`.
 */
export interface ExactBinary {
  readonly integer: bigint;
  readonly exponent: number;
}

export const exactZero: ExactBinary = { integer: 0n, exponent: 0 };

/** Room for a sum of 2^64 doubles of any size: 1 sign, 2098 + 64 bits, in hex digits. */
export const exactBinaryPattern = /^(?:0|-?[1-9a-f][0-9a-f]{0,540}p-?\d{1,4})$/;

/** @returns null when the text is not in the form above */
export function parseExactBinary(text: string): ExactBinary | null {
  if (!exactBinaryPattern.test(text)) return null;
  if (text === '0') return exactZero;
  const negative = text.startsWith('-');
  const [digits = '', exponent = ''] = text.slice(negative ? 1 : 0).split('p');
  const magnitude = BigInt(`0x${digits}`);
  if ((magnitude & 1n) === 0n) return null;
  return { integer: negative ? -magnitude : magnitude, exponent: Number(exponent) };
}

export function formatExactBinary({ integer, exponent }: ExactBinary): string {
  if (integer === 0n) return '0';
  let magnitude = integer < 0n ? -integer : integer;
  const digits = magnitude.toString(16);
  // Whole hex digits first: sums of one size have hundreds of zero bits at the end.
  const zeroDigits = digits.length - digits.replace(/0+$/, '').length;
  magnitude >>= BigInt(4 * zeroDigits);
  let bits = 4 * zeroDigits;
  while ((magnitude & 1n) === 0n) {
    magnitude >>= 1n;
    bits += 1;
  }
  return `${integer < 0n ? '-' : ''}${magnitude.toString(16)}p${exponent + bits}`;
}

export function addExactBinary(a: ExactBinary, b: ExactBinary): ExactBinary {
  if (a.integer === 0n) return b;
  if (b.integer === 0n) return a;
  const exponent = Math.min(a.exponent, b.exponent);
  const at = (one: ExactBinary): bigint => one.integer << BigInt(one.exponent - exponent);
  return { integer: at(a) + at(b), exponent };
}

const smallestExponent = -1074;
const precision = 53;

/** The nearest double, ties to even; beyond the largest one an infinity. */
export function exactBinaryToNumber({ integer, exponent }: ExactBinary): number {
  if (integer === 0n) return 0;
  const magnitude = integer < 0n ? -integer : integer;
  // The value is below 2^top.
  const top = magnitude.toString(2).length + exponent;
  if (top > 1024) return integer < 0n ? -Infinity : Infinity;
  const unit = Math.max(top - precision, smallestExponent);
  const drop = unit - exponent;
  const rounded = drop <= 0 ? magnitude << BigInt(-drop) : roundedShift(magnitude, BigInt(drop));
  // Both factors and, unless it is too large, the product are doubles: nothing is rounded a second time.
  const value = Number(rounded) * powerOfTwo(unit);
  return integer < 0n ? -value : value;
}

function roundedShift(value: bigint, bits: bigint): bigint {
  const quotient = value >> bits;
  const rest = value - (quotient << bits);
  const half = 1n << (bits - 1n);
  return rest > half || (rest === half && (quotient & 1n) === 1n) ? quotient + 1n : quotient;
}

/** 2^exponent without rounding, down to the smallest double. */
function powerOfTwo(exponent: number): number {
  return exponent < -1000 ? 2 ** -1000 * 2 ** (exponent + 1000) : 2 ** exponent;
}
