import type { GgufValue } from './format.ts';
import { Malformed } from './reader.ts';

/** Typed access to a header's metadata; a key of the wrong type throws Malformed with the key as its field. */
export class Metadata {
  readonly #values: ReadonlyMap<string, GgufValue>;
  /** The key that was asked for last. */
  field = '';

  constructor(values: ReadonlyMap<string, GgufValue>) {
    this.#values = values;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  text(key: string): string | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (value.type !== 'str') throw new Malformed('invalid', `it must be a string, found ${value.type}`);
    return value.value;
  }

  boolean(key: string): boolean | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (value.type !== 'bool') throw new Malformed('invalid', `it must be a boolean, found ${value.type}`);
    return value.value === true;
  }

  /** A whole number, 0 or more. */
  integer(key: string): number | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (value.type === 'str' || value.type === 'arr') {
      throw new Malformed('invalid', `it must be a number, found ${value.type}`);
    }
    return this.#whole(value.value);
  }

  required(key: string): number {
    const value = this.integer(key);
    if (value === undefined) throw new Malformed('invalid', 'it is missing');
    return value;
  }

  /** One number for all layers, or an array with one per layer, as the engine's `get_key_or_arr` takes it. */
  perLayer(key: string, layerCount: number): number[] | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (value.type !== 'arr') {
      const single = this.integer(key) ?? 0;
      return new Array<number>(layerCount).fill(single);
    }
    if (value.values === null || value.count < layerCount) {
      throw new Malformed(
        'invalid',
        `it must hold ${layerCount} numbers, found ${value.count} of ${value.elementType}`,
      );
    }
    return value.values.slice(0, layerCount).map((element) => this.#whole(element));
  }

  /** Number of elements of an array; 0 when there is none. */
  length(key: string): number {
    const value = this.#get(key);
    return value?.type === 'arr' ? value.count : 0;
  }

  #get(key: string): GgufValue | undefined {
    this.field = key;
    return this.#values.get(key);
  }

  #whole(value: number | bigint | boolean): number {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
      throw new Malformed('invalid', `it must be a whole number from 0 up, found ${value}`);
    }
    return value;
  }
}
