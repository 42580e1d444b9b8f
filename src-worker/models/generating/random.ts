/**
 * Deterministic random bits: xoshiro128** (Blackman and Vigna), seeded through splitmix32 so that near seeds give
 * unlike streams. The same seed and stream give the same bits on every platform.
 */
export class Random {
  readonly #state = new Uint32Array(4);

  /** @param stream tells independent uses of one seed apart */
  constructor(seed: number, stream: number) {
    let mixed = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(stream + 1, 0x85ebca77)) >>> 0;
    for (let index = 0; index < 4; index++) {
      mixed = (mixed + 0x9e3779b9) >>> 0;
      let word = mixed;
      word = Math.imul(word ^ (word >>> 16), 0x21f0aaad);
      word = Math.imul(word ^ (word >>> 15), 0x735a2d97);
      this.#state[index] = word ^ (word >>> 15);
    }
  }

  /** Fills with uniform 32-bit words. */
  fill(words: Uint32Array): void {
    let [a = 0, b = 0, c = 0, d = 0] = this.#state;
    for (let index = 0; index < words.length; index++) {
      const scrambled = Math.imul(b, 5);
      words[index] = Math.imul((scrambled << 7) | (scrambled >>> 25), 9);
      const shifted = b << 9;
      c ^= a;
      d ^= b;
      b ^= c;
      a ^= d;
      c ^= shifted;
      d = (d << 11) | (d >>> 21);
    }
    this.#state.set([a, b, c, d]);
  }

  /** A uniform permutation of 0..count-1 (Fisher-Yates; the bias of the remainder is of no matter here). */
  permutation(count: number): number[] {
    const words = new Uint32Array(count);
    this.fill(words);
    const order = Array.from({ length: count }, (_, index) => index);
    for (let index = count - 1; index > 0; index--) {
      const other = (words[index] as number) % (index + 1);
      [order[index], order[other]] = [order[other] as number, order[index] as number];
    }
    return order;
  }
}
