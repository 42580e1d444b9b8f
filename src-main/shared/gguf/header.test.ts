import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeGgufHeader, type GgufInput, type TensorInput } from './encode.ts';
import { MAX_KEPT_ELEMENTS, type GgufHeader, type GgufParse } from './format.ts';
import { parseGgufHeader } from './header.ts';
import { knownTensorTypes } from './tensor-types.ts';

const smallMetadata = new Map<string, GgufInput>([
  ['general.architecture', { type: 'str', value: 'llama' }],
  ['llama.block_count', { type: 'u32', value: 2 }],
  ['f', { type: 'f32', value: 0.5 }],
  ['flag', { type: 'bool', value: true }],
  ['words', { type: 'arr', of: 'str', values: ['a', 'bc', 'naïve ▁'] }],
  ['numbers', { type: 'arr', of: 'i32', values: [-1, 2, 3] }],
]);
const smallTensors: readonly TensorInput[] = [
  { name: 'token_embd.weight', type: 'F32', dimensions: [8, 3] },
  { name: 'blk.0.attn_q.weight', type: 'Q4_0', dimensions: [32, 8] },
  { name: 'blk.1.attn_q.weight', type: 'Q6_K', dimensions: [256, 2] },
];
const small = encodeGgufHeader(smallMetadata, smallTensors);

function header(result: GgufParse): GgufHeader {
  if (result.kind !== 'ok') throw new Error(JSON.stringify(result));
  return result.header;
}

function error(result: GgufParse) {
  if (result.kind !== 'error') throw new Error(`expected an error, got ${result.kind}`);
  return result.error;
}

/** The small header with some bytes overwritten. */
function patched(offset: number, bytes: readonly number[]): Uint8Array {
  const copy = small.bytes.slice();
  copy.set(bytes, offset);
  return copy;
}

/** Where `text` stands in the small header. */
function find(text: string): number {
  return Buffer.from(small.bytes).indexOf(text);
}

const u64 = (value: bigint): number[] => [...Buffer.from(BigUint64Array.of(value).buffer)];

describe('parseGgufHeader', () => {
  it('reads back what was written', () => {
    const parsed = header(parseGgufHeader(small.bytes, small.fileBytes));
    expect(parsed.version).toBe(3);
    expect(parsed.metadata.get('llama.block_count')).toEqual({ type: 'u32', value: 2 });
    expect(parsed.metadata.get('f')).toEqual({ type: 'f32', value: 0.5 });
    expect(parsed.metadata.get('flag')).toEqual({ type: 'bool', value: true });
    expect(parsed.metadata.get('general.architecture')).toEqual({ type: 'str', value: 'llama', bytes: 5 });
    expect(parsed.metadata.get('words')).toEqual({ type: 'arr', elementType: 'str', count: 3, values: null });
    expect(parsed.metadata.get('numbers')).toEqual({
      type: 'arr',
      elementType: 'i32',
      count: 3,
      values: [-1, 2, 3],
    });
    expect(parsed.tensors.map((tensor) => [tensor.name, tensor.bytes, tensor.offset])).toEqual([
      ['token_embd.weight', 96, 0],
      ['blk.0.attn_q.weight', (256 / 32) * 18, 96],
      ['blk.1.attn_q.weight', 420, 256],
    ]);
    expect(parsed.dataOffset).toBe(small.bytes.length);
    expect(parsed.usedBytes).toBe(small.bytes.length + 256 + 420);
  });

  it('asks for more until it has the header, and never for more than the file has', () => {
    let length = 0;
    for (;;) {
      const result = parseGgufHeader(small.bytes.subarray(0, length), small.fileBytes);
      if (result.kind === 'ok') break;
      expect(result.kind).toBe('needMore');
      if (result.kind !== 'needMore') break;
      expect(result.atLeastBytes).toBeGreaterThan(length);
      expect(result.atLeastBytes).toBeLessThanOrEqual(small.fileBytes);
      length = result.atLeastBytes;
    }
    // All but the padding in front of the tensors.
    expect(length).toBeGreaterThan(small.bytes.length - 32);
  });

  it('counts large arrays without keeping them', () => {
    const values = new Array<number>(MAX_KEPT_ELEMENTS + 1).fill(1.5);
    const encoded = encodeGgufHeader(new Map([['scores', { type: 'arr', of: 'f32', values }]]), []);
    expect(header(parseGgufHeader(encoded.bytes, encoded.fileBytes)).metadata.get('scores')).toEqual({
      type: 'arr',
      elementType: 'f32',
      count: MAX_KEPT_ELEMENTS + 1,
      values: null,
    });
  });

  it('accepts version 2 and refuses others and other byte orders by name', () => {
    expect(header(parseGgufHeader(patched(4, [2, 0, 0, 0]), small.fileBytes)).version).toBe(2);
    expect(error(parseGgufHeader(patched(4, [1, 0, 0, 0]), small.fileBytes))).toMatchObject({
      code: 'unsupported_version',
      field: 'version',
    });
    expect(error(parseGgufHeader(patched(4, [4, 0, 0, 0]), small.fileBytes)).code).toBe(
      'unsupported_version',
    );
    expect(error(parseGgufHeader(patched(4, [0, 0, 0, 3]), small.fileBytes))).toMatchObject({
      code: 'big_endian',
      message: expect.stringContaining('big-endian') as string,
    });
  });

  it('tells text, an empty file and a few bytes from a GGUF', () => {
    const text = new TextEncoder().encode('# A model card\n');
    expect(error(parseGgufHeader(text, text.length)).code).toBe('not_gguf');
    expect(error(parseGgufHeader(new Uint8Array(), 0)).code).toBe('empty');
    expect(error(parseGgufHeader(small.bytes.subarray(0, 2), 2)).code).toBe('not_gguf');
  });

  it('says how many bytes a truncated file must have and has', () => {
    const needed = small.bytes.length + 256 + 420;
    expect(error(parseGgufHeader(small.bytes, needed - 1))).toEqual({
      code: 'truncated',
      message: `the file is cut off: it must have ${needed} bytes or more and has ${needed - 1}`,
      field: 'tensor data',
    });
    expect(error(parseGgufHeader(small.bytes.subarray(0, 100), 100)).code).toBe('truncated');
  });

  it.each([
    ['tensor count', 8, u64(1n << 40n), 'invalid'],
    ['metadata count', 16, u64(0xffff_ffff_ffff_ffffn), 'invalid'],
    ['metadata[0]', 24, u64(1n << 62n), 'invalid'],
    ['metadata "general.architecture"', 24 + 8 + 20, [200, 0, 0, 0], 'invalid'],
    ['metadata "general.architecture"', 24 + 8 + 20 + 4, u64(1n << 50n), 'truncated'],
    ['metadata "words"', find('words') + 5 + 4, [9, 0, 0, 0], 'invalid'],
    ['metadata "words"', find('words') + 5 + 4 + 4, u64(1n << 40n), 'truncated'],
    ['metadata "numbers"', find('numbers') + 7 + 4 + 4, u64(1n << 51n), 'truncated'],
    ['tensor "token_embd.weight"', find('token_embd') + 17, [5, 0, 0, 0], 'invalid'],
    ['tensor "token_embd.weight"', find('token_embd') + 17 + 4, u64(1n << 52n), 'invalid'],
    ['tensor "token_embd.weight"', find('token_embd') + 17 + 4 + 16, [4, 0, 0, 0], 'invalid'],
    ['tensor "token_embd.weight"', find('token_embd') + 17 + 4 + 16 + 4, u64(32n), 'invalid'],
    ['tensor "blk.0.attn_q.weight"', find('blk.0') + 19 + 4, u64(33n), 'invalid'],
  ] as const)('refuses a hostile %s', (field, offset, bytes, code) => {
    expect(error(parseGgufHeader(patched(offset, bytes), small.fileBytes))).toMatchObject({ code, field });
  });

  it('refuses a key or a tensor that comes twice', () => {
    expect(
      error(parseGgufHeader(patched(find('blk.1'), [...Buffer.from('blk.0')]), small.fileBytes)),
    ).toMatchObject({
      code: 'invalid',
      message: 'a tensor name appears twice',
    });
    const twice = encodeGgufHeader(
      new Map<string, GgufInput>([
        ['aa', { type: 'u32', value: 1 }],
        ['ab', { type: 'u32', value: 1 }],
      ]),
      [],
    );
    twice.bytes[Buffer.from(twice.bytes).indexOf('ab') + 1] = 'a'.charCodeAt(0);
    expect(error(parseGgufHeader(twice.bytes, twice.fileBytes)).message).toBe('a metadata key appears twice');
  });

  it('knows every tensor type of the engine (GGML_TYPE_COUNT 43 less the removed ones)', () => {
    const removed = new Set([4, 5, 31, 32, 33, 36, 37, 38]);
    expect(knownTensorTypes.map((known) => known.id)).toEqual(
      Array.from({ length: 43 }, (_, id) => id).filter((id) => !removed.has(id)),
    );
  });

  it('reads any header it can write', () => {
    fc.assert(
      fc.property(headers, ({ metadata, tensors }) => {
        const encoded = encodeGgufHeader(metadata, tensors);
        const parsed = header(parseGgufHeader(encoded.bytes, encoded.fileBytes));
        expect([...parsed.metadata.keys()]).toEqual([...metadata.keys()]);
        expect(parsed.tensors.map((tensor) => tensor.offset + parsed.dataOffset)).toEqual(
          encoded.tensors.map((tensor) => tensor.start),
        );
        expect(parsed.usedBytes).toBeLessThanOrEqual(encoded.fileBytes);
      }),
      { numRuns: 300 },
    );
  });

  it('never throws, never hangs and never asks beyond the file on mutated headers', () => {
    const runs = Number(process.env['COVEY_FUZZ_RUNS'] ?? 20_000);
    fc.assert(
      fc.property(mutations, fc.nat(), ({ edits, cut }, extra) => {
        const bytes = small.bytes.slice();
        for (const [at, value] of edits) bytes[at % bytes.length] = value;
        const prefix = bytes.subarray(0, cut % (bytes.length + 1));
        const fileBytes = prefix.length + (extra % 4096);
        const result = parseGgufHeader(prefix, fileBytes);
        if (result.kind === 'needMore') {
          expect(result.atLeastBytes).toBeGreaterThan(prefix.length);
          expect(result.atLeastBytes).toBeLessThanOrEqual(fileBytes);
        }
        if (result.kind === 'error') expect(result.error.field.length).toBeLessThanOrEqual(128);
        if (result.kind === 'ok') expect(result.header.usedBytes).toBeLessThanOrEqual(fileBytes);
      }),
      { numRuns: runs },
    );
  }, 600_000);

  it('never throws on noise behind the magic', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 512 }), (noise) => {
        const bytes = Uint8Array.from([...Buffer.from('GGUF'), 3, 0, 0, 0, ...noise]);
        parseGgufHeader(bytes, bytes.length);
      }),
      { numRuns: 5_000 },
    );
  });
});

const mutations = fc.record({
  edits: fc.array(
    fc.tuple(fc.nat(), fc.oneof(fc.constantFrom(0, 1, 2, 8, 9, 12, 127, 128, 255), fc.nat(255))),
    { maxLength: 12 },
  ),
  cut: fc.oneof(fc.nat(), fc.constant(small.bytes.length)),
});

const values: fc.Arbitrary<GgufInput> = fc.oneof(
  fc.record({ type: fc.constant('u32' as const), value: fc.nat(0xffff_ffff) }),
  fc.record({ type: fc.constant('i32' as const), value: fc.integer({ min: -1000, max: 1000 }) }),
  fc.record({ type: fc.constant('bool' as const), value: fc.boolean() }),
  fc.record({ type: fc.constant('str' as const), value: fc.string() }),
  fc.record({
    type: fc.constant('arr' as const),
    of: fc.constant('str' as const),
    values: fc.array(fc.string()),
  }),
);
const headers = fc.record({
  metadata: fc
    .uniqueArray(fc.tuple(fc.string({ minLength: 1, maxLength: 20 }), values), { selector: ([key]) => key })
    .map((entries) => new Map(entries.filter(([key]) => key !== 'general.alignment'))),
  tensors: fc.uniqueArray(fc.string({ minLength: 1, maxLength: 12 }), { maxLength: 8 }).chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc
          .tuple(fc.constantFrom(...knownTensorTypes), fc.nat(4), fc.nat(5))
          .map(([known, rows, blocks]): TensorInput => ({
            name,
            type: known.type.name,
            dimensions: [known.type.blockElements * blocks, rows],
          })),
      ),
    ),
  ),
});
