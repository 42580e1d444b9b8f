import { knownTensorTypes } from './tensor-types.ts';

/** See reader.ts. */
declare const TextEncoder: new () => { encode(text: string): Uint8Array };

export type GgufInput =
  | { readonly type: 'u16' | 'u32' | 'i32' | 'f32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'str'; readonly value: string }
  | { readonly type: 'arr'; readonly of: 'str'; readonly values: readonly string[] }
  | { readonly type: 'arr'; readonly of: 'u32' | 'i32' | 'f32'; readonly values: readonly number[] };

export interface TensorInput {
  readonly name: string;
  /** A name from tensor-types.ts; its block must divide the first dimension. */
  readonly type: string;
  readonly dimensions: readonly number[];
}

export interface EncodedHeader {
  /** Header and padding: tensor data follows. */
  readonly bytes: Uint8Array;
  /** By tensor, in order: where its data starts in the file, and how long it is without the padding after it. */
  readonly tensors: readonly { readonly start: number; readonly bytes: number }[];
  /** Length of the whole file, the last tensor padded. */
  readonly fileBytes: number;
}

const typeIds = { u8: 0, u16: 2, u32: 4, i32: 5, f32: 6, bool: 7, str: 8, arr: 9 } as const;
const ALIGNMENT = 32;

/** Writes the header of a GGUF (version 3, little-endian) and says where each tensor's data goes. */
export function encodeGgufHeader(
  metadata: ReadonlyMap<string, GgufInput>,
  tensors: readonly TensorInput[],
): EncodedHeader {
  const out = new ByteWriter();
  out.ascii('GGUF');
  out.u32(3);
  out.u64(tensors.length);
  out.u64(metadata.size);
  for (const [key, value] of metadata) {
    out.text(key);
    out.u32(typeIds[value.type]);
    if (value.type === 'arr') {
      out.u32(typeIds[value.of]);
      out.u64(value.values.length);
      for (const element of value.values) out.scalar(value.of, element);
    } else {
      out.scalar(value.type, value.value);
    }
  }
  let offset = 0;
  const placed: { offset: number; bytes: number }[] = [];
  for (const tensor of tensors) {
    const known = knownTensorTypes.find((candidate) => candidate.type.name === tensor.type);
    if (known === undefined) throw new RangeError(`no tensor type ${tensor.type}`);
    const elements = tensor.dimensions.reduce((product, size) => product * size, 1);
    const bytes = (elements / known.type.blockElements) * known.type.blockBytes;
    out.text(tensor.name);
    out.u32(tensor.dimensions.length);
    for (const size of tensor.dimensions) out.u64(size);
    out.u32(known.id);
    out.u64(offset);
    placed.push({ offset, bytes });
    offset = aligned(offset + bytes);
  }
  const bytes = out.finish(ALIGNMENT);
  return {
    bytes,
    tensors: placed.map((tensor) => ({ start: bytes.length + tensor.offset, bytes: tensor.bytes })),
    fileBytes: bytes.length + offset,
  };
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

class ByteWriter {
  #bytes = new Uint8Array(4096);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;
  readonly #encoder = new TextEncoder();

  ascii(text: string): void {
    this.#append(this.#encoder.encode(text));
  }

  text(text: string): void {
    const bytes = this.#encoder.encode(text);
    this.u64(bytes.length);
    this.#append(bytes);
  }

  u32(value: number): void {
    const at = this.#grow(4);
    this.#view.setUint32(at, value, true);
  }

  u64(value: number): void {
    const at = this.#grow(8);
    this.#view.setBigUint64(at, BigInt(value), true);
  }

  scalar(type: 'u16' | 'u32' | 'i32' | 'f32' | 'bool' | 'str', value: number | boolean | string): void {
    switch (type) {
      case 'str':
        this.text(String(value));
        break;
      case 'bool': {
        const at = this.#grow(1);
        this.#view.setUint8(at, value === true ? 1 : 0);
        break;
      }
      case 'u16': {
        const at = this.#grow(2);
        this.#view.setUint16(at, Number(value), true);
        break;
      }
      case 'u32':
        this.u32(Number(value));
        break;
      case 'i32': {
        const at = this.#grow(4);
        this.#view.setInt32(at, Number(value), true);
        break;
      }
      case 'f32': {
        const at = this.#grow(4);
        this.#view.setFloat32(at, Number(value), true);
        break;
      }
    }
  }

  finish(alignment: number): Uint8Array {
    this.#grow((alignment - (this.#length % alignment)) % alignment);
    return this.#bytes.slice(0, this.#length);
  }

  #append(bytes: Uint8Array): void {
    const at = this.#grow(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** Makes room for `bytes` (zeros) and returns where they start. May replace the view: call it first. */
  #grow(bytes: number): number {
    const start = this.#length;
    this.#length += bytes;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#length, this.#bytes.length * 2));
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return start;
  }
}
