import { MAX_KEPT_ELEMENTS, MAX_TEXT_BYTES } from './format.ts';
import type { GgufError, GgufHeader, GgufParse, GgufScalarType, GgufTensor, GgufValue } from './format.ts';
import { ByteReader, Malformed, MoreNeeded } from './reader.ts';
import { tensorType } from './tensor-types.ts';

/** A longer header is refused: real ones are below 64 MiB. */
export const MAX_HEADER_BYTES = 256 * 1024 * 1024;
const MAX_METADATA = 65_536;
const MAX_TENSORS = 262_144;
const MAX_KEY_BYTES = 65_535;
/** GGML_MAX_NAME with its terminating zero. */
const MAX_TENSOR_NAME_BYTES = 63;
/** GGML_MAX_DIMS */
const MAX_DIMENSIONS = 4;
const DEFAULT_ALIGNMENT = 32;
const MAX_ALIGNMENT = 1024 * 1024;
/** key length, one byte of key, value type, one byte of value. */
const MIN_METADATA_BYTES = 8 + 1 + 4 + 1;
/** name length, dimension count, type, offset. */
const MIN_TENSOR_BYTES = 8 + 4 + 4 + 8;

/** In the order of their numbers in the file. */
const valueTypes = [
  'u8',
  'i8',
  'u16',
  'i16',
  'u32',
  'i32',
  'f32',
  'bool',
  'str',
  'arr',
  'u64',
  'i64',
  'f64',
] as const;
type ValueType = (typeof valueTypes)[number];

const scalarBytes: Readonly<Record<GgufScalarType, number>> = {
  u8: 1,
  i8: 1,
  u16: 2,
  i16: 2,
  u32: 4,
  i32: 4,
  f32: 4,
  bool: 1,
  u64: 8,
  i64: 8,
  f64: 8,
};

/**
 * Reads the header of a GGUF (version 2 or 3, little-endian) from the first bytes of a file. Never throws; work
 * and memory are bounded by the length of the prefix, whatever the lengths and counts in it say. The format, and
 * the checks, are those of the engine's ggml/src/gguf.cpp, so that what passes here is not refused later for its
 * form.
 * @param prefix the first bytes of the file, any number of them
 * @param fileBytes length of the whole file
 */
export function parseGgufHeader(prefix: Uint8Array, fileBytes: number): GgufParse {
  if (fileBytes === 0) return failed('empty', 'the file is empty', 'file');
  const reader = new ByteReader(prefix, fileBytes);
  try {
    return { kind: 'ok', header: readHeader(reader) };
  } catch (thrown) {
    if (thrown instanceof MoreNeeded) {
      return thrown.atLeastBytes > MAX_HEADER_BYTES
        ? failed('invalid', `the header is longer than ${MAX_HEADER_BYTES} bytes`, reader.field)
        : { kind: 'needMore', atLeastBytes: thrown.atLeastBytes };
    }
    if (thrown instanceof Malformed) return failed(thrown.code, thrown.message, reader.field);
    throw thrown;
  }
}

function failed(code: GgufError['code'], message: string, field: string): GgufParse {
  return { kind: 'error', error: { code, message, field } };
}

function readHeader(reader: ByteReader): GgufHeader {
  const version = readVersion(reader);
  reader.field = 'tensor count';
  const tensorCount = reader.count(MAX_TENSORS, MIN_TENSOR_BYTES);
  reader.field = 'metadata count';
  const metadataCount = reader.count(MAX_METADATA, MIN_METADATA_BYTES);

  const metadata = new Map<string, GgufValue>();
  for (let index = 0; index < metadataCount; index++) {
    reader.field = `metadata[${index}]`;
    const key = reader.text(MAX_KEY_BYTES, MAX_KEY_BYTES).value;
    if (key === '') throw new Malformed('invalid', 'a metadata key is empty');
    reader.field = `metadata "${printable(key)}"`;
    if (metadata.has(key)) throw new Malformed('invalid', 'a metadata key appears twice');
    metadata.set(key, readValue(reader));
  }
  reader.field = 'general.alignment';
  const alignment = readAlignment(metadata.get('general.alignment'));

  const names = new Set<string>();
  const tensors: GgufTensor[] = [];
  let dataBytes = 0;
  let usedDataBytes = 0;
  for (let index = 0; index < tensorCount; index++) {
    reader.field = `tensor[${index}]`;
    const tensor = readTensor(reader);
    if (names.has(tensor.name)) throw new Malformed('invalid', 'a tensor name appears twice');
    names.add(tensor.name);
    // The engine requires tensors to lie one after the other, each padded to the alignment.
    if (tensor.offset !== dataBytes) {
      throw new Malformed('invalid', `its data starts at ${tensor.offset}, expected ${dataBytes}`);
    }
    usedDataBytes = dataBytes + tensor.bytes;
    dataBytes = padded(usedDataBytes, alignment);
    if (!Number.isSafeInteger(dataBytes))
      throw new Malformed('invalid', 'the tensors are too large to count');
    tensors.push(tensor);
  }

  reader.field = 'tensor data';
  const dataOffset = padded(reader.position, alignment);
  const usedBytes = tensorCount === 0 ? reader.position : dataOffset + usedDataBytes;
  if (usedBytes > reader.fileBytes) throw Malformed.truncated(usedBytes, reader.fileBytes);
  // The engine maps the whole file: what no tensor uses would fill the memory all the same.
  if (reader.fileBytes - usedBytes > MAX_TRAILING_BYTES) {
    reader.field = 'file';
    throw new Malformed(
      'invalid',
      `its tensors end after ${usedBytes} bytes, but the file has ${reader.fileBytes}: it was not written or copied properly`,
    );
  }
  return { version, metadata, tensors, alignment, dataOffset, usedBytes };
}

function readVersion(reader: ByteReader): 2 | 3 {
  reader.field = 'magic';
  if (!reader.magic('GGUF')) {
    throw new Malformed('not_gguf', 'it does not begin with "GGUF", so it is not a GGUF model');
  }
  reader.field = 'version';
  const version = reader.u32();
  if ((version & 0xffff) === 0 && version !== 0) {
    throw new Malformed('big_endian', 'it is a big-endian GGUF; this system reads little-endian ones');
  }
  if (version !== 2 && version !== 3) {
    throw new Malformed(
      'unsupported_version',
      `it is GGUF version ${version}; versions 2 and 3 are supported`,
    );
  }
  return version;
}

function readAlignment(value: GgufValue | undefined): number {
  if (value === undefined) return DEFAULT_ALIGNMENT;
  const alignment = value.type === 'u32' ? Number(value.value) : 0;
  if (alignment === 0 || (alignment & (alignment - 1)) !== 0 || alignment > MAX_ALIGNMENT) {
    throw new Malformed('invalid', 'the alignment must be a power of two of type u32, at most 1 MiB');
  }
  return alignment;
}

function readValueType(reader: ByteReader): ValueType {
  const id = reader.u32();
  const type = valueTypes[id];
  if (type === undefined) throw new Malformed('invalid', `the value type ${id} does not exist`);
  return type;
}

/** Padding and what some writers leave behind the last tensor. */
const MAX_TRAILING_BYTES = 1024 * 1024;

function readValue(reader: ByteReader): GgufValue {
  const type = readValueType(reader);
  if (type === 'str') return { type, ...reader.text(Infinity, MAX_TEXT_BYTES) };
  if (type !== 'arr') return { type, value: reader.scalar(type) };

  const elementType = readValueType(reader);
  if (elementType === 'arr')
    throw new Malformed('invalid', 'arrays of arrays are not supported by the engine');
  if (elementType === 'str') {
    const count = reader.count(Infinity, 8);
    for (let index = 0; index < count; index++) reader.skipText();
    return { type, elementType, count, values: null };
  }
  const count = reader.count(Infinity, scalarBytes[elementType]);
  if (count > MAX_KEPT_ELEMENTS) {
    reader.skip(count * scalarBytes[elementType]);
    return { type, elementType, count, values: null };
  }
  const values: (number | bigint | boolean)[] = [];
  for (let index = 0; index < count; index++) values.push(reader.scalar(elementType));
  return { type, elementType, count, values };
}

function readTensor(reader: ByteReader): GgufTensor {
  const name = reader.text(MAX_TENSOR_NAME_BYTES, MAX_TENSOR_NAME_BYTES).value;
  reader.field = `tensor "${printable(name)}"`;
  const dimensionCount = reader.u32();
  if (dimensionCount > MAX_DIMENSIONS) {
    throw new Malformed(
      'invalid',
      `it has ${dimensionCount} dimensions, at most ${MAX_DIMENSIONS} are possible`,
    );
  }
  const dimensions: number[] = [];
  let elements = 1;
  for (let index = 0; index < dimensionCount; index++) {
    const size = reader.u64();
    dimensions.push(size);
    elements *= size;
    if (!Number.isSafeInteger(elements)) throw new Malformed('invalid', 'it has too many elements to count');
  }
  const typeId = reader.u32();
  const type = tensorType(typeId);
  if (type === undefined) throw new Malformed('invalid', `the engine has no tensor type ${typeId}`);
  if ((dimensions[0] ?? 1) % type.blockElements !== 0) {
    throw new Malformed(
      'invalid',
      `a row of ${dimensions[0] ?? 1} is not a multiple of ${type.blockElements}, the block of ${type.name}`,
    );
  }
  const bytes = (elements / type.blockElements) * type.blockBytes;
  if (!Number.isSafeInteger(bytes)) throw new Malformed('invalid', 'it has too many bytes to count');
  return { name, type, dimensions, offset: reader.u64(), bytes };
}

function padded(bytes: number, alignment: number): number {
  const over = bytes % alignment;
  return over === 0 ? bytes : bytes + alignment - over;
}

/** A name from the file, fit for a message: short and without control characters. */
function printable(text: string): string {
  const clean = text.replace(/[^\x20-\x7e]/g, '?');
  return clean.length > 64 ? `${clean.slice(0, 61)}...` : clean;
}
