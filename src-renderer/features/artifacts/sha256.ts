/**
 * SHA-256 (FIPS 180-4) of bytes that come piece by piece. WebCrypto digests a buffer only as a whole, which a file
 * of some gigabytes is not; pieces that fit into memory are digested by WebCrypto instead.
 */
export interface Sha256 {
  update(bytes: Uint8Array): void;
  /** The digest in hexadecimal digits; the hash takes nothing after it. */
  hex(): string;
}

const blockBytes = 64;
const [constants, initial] = makeConstants();

export function createSha256(): Sha256 {
  const state = Int32Array.from(initial);
  const words = new Int32Array(64);
  const rest = new Uint8Array(blockBytes);
  let restBytes = 0;
  let totalBytes = 0;

  const take = (bytes: Uint8Array): void => {
    let at = 0;
    if (restBytes > 0) {
      at = Math.min(blockBytes - restBytes, bytes.length);
      rest.set(bytes.subarray(0, at), restBytes);
      restBytes += at;
      if (restBytes < blockBytes) return;
      compress(state, words, rest, 0);
      restBytes = 0;
    }
    for (; at + blockBytes <= bytes.length; at += blockBytes) compress(state, words, bytes, at);
    rest.set(bytes.subarray(at));
    restBytes = bytes.length - at;
  };
  return {
    update(bytes) {
      totalBytes += bytes.length;
      take(bytes);
    },
    hex() {
      const padding = new Uint8Array((restBytes < 56 ? 56 : 120) - restBytes + 8);
      padding[0] = 0x80;
      new DataView(padding.buffer).setBigUint64(padding.length - 8, BigInt(totalBytes) * 8n);
      take(padding);
      return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
    },
  };
}

/** Section 6.2.2, for the 64 bytes from `at` on. */
function compress(state: Int32Array, w: Int32Array, bytes: Uint8Array, at: number): void {
  for (let t = 0, p = at; t < 16; t++, p += 4) {
    w[t] =
      ((bytes[p] as number) << 24) |
      ((bytes[p + 1] as number) << 16) |
      ((bytes[p + 2] as number) << 8) |
      (bytes[p + 3] as number);
  }
  for (let t = 16; t < 64; t++) {
    const x = w[t - 15] as number;
    const y = w[t - 2] as number;
    const small0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const small1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[t] = ((w[t - 16] as number) + small0 + (w[t - 7] as number) + small1) | 0;
  }
  let a = state[0] as number;
  let b = state[1] as number;
  let c = state[2] as number;
  let d = state[3] as number;
  let e = state[4] as number;
  let f = state[5] as number;
  let g = state[6] as number;
  let h = state[7] as number;
  for (let t = 0; t < 64; t++) {
    const big1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const one = (h + big1 + ((e & f) ^ (~e & g)) + (constants[t] as number) + (w[t] as number)) | 0;
    const big0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const two = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((value, index) => {
    state[index] = ((state[index] as number) + value) | 0;
  });
}

/** The first 32 bits of the fractions of the cube roots of the first 64 primes, and of the square roots of eight. */
function makeConstants(): [Int32Array, Int32Array] {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return [
    Int32Array.from(primes, (prime) => fractionOf(BigInt(prime), 3n)),
    Int32Array.from(primes.slice(0, 8), (prime) => fractionOf(BigInt(prime), 2n)),
  ];
}

/** Exact: the root of prime * 2^(32 * degree), whose lowest 32 bits are the fraction. */
function fractionOf(prime: bigint, degree: bigint): number {
  const target = prime << (32n * degree);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** degree <= target) low = middle;
    else high = middle;
  }
  return Number(BigInt.asIntN(32, low));
}
