import type { TensorType } from './tensor-types.ts';

export const MAX_TEXT_BYTES = 64 * 1024;
export const MAX_KEPT_ELEMENTS = 4096;

/**
 * What is kept of the header of a GGUF file.
 */
export interface GgufHeader {
  readonly version: 2 | 3;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
  /** Alignment of tensors in bytes, a power of two. */
  readonly alignment: number;
  /** Where tensor data starts: the header with its padding. */
  readonly dataOffset: number;
  /** Bytes of the file from its start to the end of its last tensor. */
  readonly usedBytes: number;
}

export type GgufScalarType =
  'u8' | 'i8' | 'u16' | 'i16' | 'u32' | 'i32' | 'f32' | 'bool' | 'u64' | 'i64' | 'f64';

export type GgufValue =
  /** 64-bit integers that a double cannot hold stay bigint. */
  | { readonly type: GgufScalarType; readonly value: number | bigint | boolean }
  /** `value` holds the first MAX_TEXT_BYTES; `bytes` is the true length. */
  | { readonly type: 'str'; readonly value: string; readonly bytes: number }
  /** Elements are kept for numeric arrays up to MAX_KEPT_ELEMENTS, else only counted. */
  | {
      readonly type: 'arr';
      readonly elementType: GgufScalarType | 'str';
      readonly count: number;
      readonly values: readonly (number | bigint | boolean)[] | null;
    };

export interface GgufTensor {
  readonly name: string;
  readonly type: TensorType;
  /** ne[0] first (the row), as in the file. */
  readonly dimensions: readonly number[];
  /** From the start of the data section. */
  readonly offset: number;
  readonly bytes: number;
}

export interface GgufError {
  readonly code: 'empty' | 'not_gguf' | 'big_endian' | 'unsupported_version' | 'truncated' | 'invalid';
  /** One sentence, without the file's name. */
  readonly message: string;
  /** The part of the header at fault. */
  readonly field: string;
}

export type GgufParse =
  | { readonly kind: 'ok'; readonly header: GgufHeader }
  /** The prefix ends inside the header: come again with at least so many bytes (never more than the file has). */
  | { readonly kind: 'needMore'; readonly atLeastBytes: number }
  | { readonly kind: 'error'; readonly error: GgufError };
