/** Chance from a seed: the same seed gives the same numbers on every machine. */
export interface Random {
  /** An integer from 0 to `below` - 1. */
  int(below: number): number;
  /** True once in `times`. */
  oneIn(times: number): boolean;
  pick<T>(values: readonly T[]): T;
  bytes(length: number): Buffer;
}

/** xorshift128 (Marsaglia 2003), its state spread from one number by splitmix32. */
export function createRandom(seed: number): Random {
  let spread = seed | 0;
  const next = (): number => {
    spread = (spread + 0x9e3779b9) | 0;
    let mixed = spread ^ (spread >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return mixed ^ (mixed >>> 15);
  };
  let [x, y, z, w] = [next(), next(), next(), next() | 1];
  const step = (): number => {
    const t = x ^ (x << 11);
    x = y;
    y = z;
    z = w;
    w = w ^ (w >>> 19) ^ (t ^ (t >>> 8));
    return w >>> 0;
  };
  const int = (below: number): number => Math.floor((step() / 2 ** 32) * below);
  return {
    int,
    oneIn: (times) => int(times) === 0,
    pick<T>(values: readonly T[]): T {
      if (values.length === 0) throw new Error('nothing to pick from');
      return values[int(values.length)] as T;
    },
    bytes(length) {
      const bytes = Buffer.allocUnsafe(length);
      for (let at = 0; at < length; at += 1) bytes[at] = step() & 0xff;
      return bytes;
    },
  };
}

/** The seed of one input of a run. */
export function inputSeed(seed: number, index: number): number {
  return (Math.imul(seed, 0x9e3779b1) + index) | 0;
}
