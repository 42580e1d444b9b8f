import type { GgufError, GgufScalarType } from './format.ts';

/** The runtimes of all sides have it; its types come with the DOM or Node.js, which shared code does without. */
declare const TextDecoder: new (encoding: 'utf-8') => { decode(bytes: Uint8Array): string };

/** The prefix ends here, the file does not. */
export class MoreNeeded extends Error {
  readonly atLeastBytes: number;

  constructor(atLeastBytes: number) {
    super('more bytes needed');
    this.atLeastBytes = atLeastBytes;
  }
}

/** The file is not a valid GGUF. */
export class Malformed extends Error {
  readonly code: GgufError['code'];

  constructor(code: GgufError['code'], message: string) {
    super(message);
    this.code = code;
  }

  static truncated(neededBytes: number, fileBytes: number): Malformed {
    return new Malformed(
      'truncated',
      `the file is cut off: it must have ${neededBytes} bytes or more and has ${fileBytes}`,
    );
  }
}

/**
 * A bounded little-endian cursor. Every read first checks the file's length, then the prefix's, so that nothing
 * is allocated or looped over on the word of a length field alone. Throws MoreNeeded or Malformed.
 */
export class ByteReader {
  position = 0;
  /** What is being read, for the error. */
  field = 'file';
  readonly fileBytes: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #decoder = new TextDecoder('utf-8');

  constructor(prefix: Uint8Array, fileBytes: number) {
    this.#bytes = prefix;
    this.#view = new DataView(prefix.buffer, prefix.byteOffset, prefix.byteLength);
    this.fileBytes = fileBytes;
  }

  /** Whether the next bytes are `expected`; a file too short for them is not. */
  magic(expected: string): boolean {
    const available = Math.min(expected.length, this.#bytes.length);
    for (let index = 0; index < available; index++) {
      if (this.#bytes[index] !== expected.charCodeAt(index)) return false;
    }
    if (this.fileBytes < expected.length) return false;
    this.skip(expected.length);
    return true;
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  u64(): number {
    const value = this.#view.getBigUint64(this.#take(8), true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER))
      throw new Malformed('invalid', `the number ${value} is too large`);
    return Number(value);
  }

  /**
   * A count of elements, each of which takes at least `elementBytes` in the file: what cannot be there is refused.
   */
  count(most: number, elementBytes: number): number {
    const count = this.u64();
    if (count > most) throw new Malformed('invalid', `the count ${count} is larger than ${most}`);
    this.#require(count * elementBytes);
    return count;
  }

  scalar(type: GgufScalarType): number | bigint | boolean {
    switch (type) {
      case 'u8':
        return this.#view.getUint8(this.#take(1));
      case 'i8':
        return this.#view.getInt8(this.#take(1));
      case 'bool':
        return this.#view.getUint8(this.#take(1)) !== 0;
      case 'u16':
        return this.#view.getUint16(this.#take(2), true);
      case 'i16':
        return this.#view.getInt16(this.#take(2), true);
      case 'u32':
        return this.#view.getUint32(this.#take(4), true);
      case 'i32':
        return this.#view.getInt32(this.#take(4), true);
      case 'f32':
        return this.#view.getFloat32(this.#take(4), true);
      case 'f64':
        return this.#view.getFloat64(this.#take(8), true);
      case 'u64':
        return narrowed(this.#view.getBigUint64(this.#take(8), true));
      case 'i64':
        return narrowed(this.#view.getBigInt64(this.#take(8), true));
    }
  }

  /** A string of at most `mostBytes`, of which the first `keptBytes` are decoded. */
  text(mostBytes: number, keptBytes: number): { value: string; bytes: number } {
    const bytes = this.u64();
    if (bytes > mostBytes)
      throw new Malformed('invalid', `a name of ${bytes} bytes is longer than ${mostBytes}`);
    const start = this.#take(bytes);
    return {
      value: this.#decoder.decode(this.#bytes.subarray(start, start + Math.min(bytes, keptBytes))),
      bytes,
    };
  }

  skipText(): void {
    this.skip(this.u64());
  }

  skip(bytes: number): void {
    this.#take(bytes);
  }

  /** The file has so many more bytes; the prefix may not. */
  #require(bytes: number): void {
    const end = this.position + bytes;
    if (end > this.fileBytes) throw Malformed.truncated(end, this.fileBytes);
  }

  #take(bytes: number): number {
    this.#require(bytes);
    const start = this.position;
    if (start + bytes > this.#bytes.length) throw new MoreNeeded(start + bytes);
    this.position = start + bytes;
    return start;
  }
}

function narrowed(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
