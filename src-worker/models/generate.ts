import type { GgufInput } from '#shared/gguf/encode.ts';
import { writeGgufFile, type TensorSource } from './generating/gguf-file.ts';
import { Random } from './generating/random.ts';
import { makeVocabulary, specialTokens, syllableWords } from './generating/vocabulary.ts';

export interface GeneratedModel {
  readonly path: string;
  readonly layers: number;
  /** A multiple of 32 and of headCount. */
  readonly embeddingLength: number;
  /** A multiple of 32. */
  readonly feedForwardLength: number;
  readonly headCount: number;
  /** Divides headCount. */
  readonly headCountKv: number;
  readonly contextLength: number;
  readonly seed: number;
  readonly weightType: 'Q4_0' | 'F32';
  /** Default: a name made from the sizes. */
  readonly name?: string;
  readonly signal?: AbortSignal;
}

const VOCABULARY_SIZE = 512;
const Q4_0_ELEMENTS = 32;
const Q4_0_BYTES = 18;
/** Bytes per piece: whole blocks of either type, and whole 32-bit words. */
const PIECE_BYTES = Q4_0_BYTES * 65_536;

/**
 * Writes a llama-architecture model with random weights: nothing it says means anything, but it loads, computes
 * and splits like a real one of its size. The same arguments give the same bytes. It never emits a special token
 * (their output rows are zero), so it stops at the token limit only, and never a byte that is no character.
 *
 * 16 layers, 2048 wide, feed-forward 8192, 32/8 heads, Q4_0 give 0.55 GB; 8 layers, 1024, 2816, 16/8 about 60 MB.
 * @returns the length of the file
 * @throws RangeError for sizes that do not fit each other
 */
export async function generateModel(model: GeneratedModel): Promise<number> {
  check(model);
  const { embeddingLength: width, feedForwardLength: inner, headCount, headCountKv } = model;
  const headLength = width / headCount;
  const vocabulary = makeVocabulary(syllableWords(VOCABULARY_SIZE - makeVocabulary([]).tokens.length));

  let stream = 0;
  const matrix = (name: string, columns: number, rows: number, zeroRows = 0): TensorSource => {
    const own = stream++;
    return {
      name,
      type: model.weightType,
      dimensions: [columns, rows],
      data: () => randomMatrix(model, new Random(model.seed, own), columns, rows, zeroRows),
    };
  };
  const ones = (name: string): TensorSource => ({
    name,
    type: 'F32',
    dimensions: [width],
    data: () => [new Uint8Array(new Float32Array(width).fill(1).buffer)],
  });

  const tensors: TensorSource[] = [
    matrix('token_embd.weight', width, VOCABULARY_SIZE),
    ones('output_norm.weight'),
    matrix('output.weight', width, VOCABULARY_SIZE, specialTokens.length),
  ];
  for (let layer = 0; layer < model.layers; layer++) {
    const named = (name: string): string => `blk.${layer}.${name}.weight`;
    tensors.push(
      ones(named('attn_norm')),
      matrix(named('attn_q'), width, width),
      matrix(named('attn_k'), width, headCountKv * headLength),
      matrix(named('attn_v'), width, headCountKv * headLength),
      matrix(named('attn_output'), width, width),
      ones(named('ffn_norm')),
      matrix(named('ffn_gate'), width, inner),
      matrix(named('ffn_up'), width, inner),
      matrix(named('ffn_down'), inner, width),
    );
  }

  const metadata = new Map<string, GgufInput>([
    ['general.architecture', { type: 'str', value: 'llama' }],
    [
      'general.name',
      { type: 'str', value: model.name ?? `made ${model.layers}x${width} ${model.weightType}` },
    ],
    ['general.file_type', { type: 'u32', value: model.weightType === 'Q4_0' ? 2 : 0 }],
    ['llama.block_count', { type: 'u32', value: model.layers }],
    ['llama.context_length', { type: 'u32', value: model.contextLength }],
    ['llama.embedding_length', { type: 'u32', value: width }],
    ['llama.feed_forward_length', { type: 'u32', value: inner }],
    ['llama.attention.head_count', { type: 'u32', value: headCount }],
    ['llama.attention.head_count_kv', { type: 'u32', value: headCountKv }],
    ['llama.rope.dimension_count', { type: 'u32', value: headLength }],
    ['llama.attention.layer_norm_rms_epsilon', { type: 'f32', value: 1e-5 }],
    ...vocabulary.metadata,
  ]);
  return await writeGgufFile(model.path, metadata, tensors, model.signal);
}

function check(model: GeneratedModel): void {
  const demand = (holds: boolean, field: string, value: number, rule: string): void => {
    if (!holds) throw new RangeError(`${field} must be ${rule}, got ${value}`);
  };
  const whole = (value: number): boolean => Number.isInteger(value) && value > 0;
  const { layers, embeddingLength, feedForwardLength, headCount, headCountKv, contextLength, seed } = model;
  demand(whole(layers) && layers <= 512, 'layers', layers, 'from 1 to 512');
  demand(
    whole(embeddingLength) && embeddingLength % 32 === 0,
    'embeddingLength',
    embeddingLength,
    'a multiple of 32',
  );
  demand(
    whole(feedForwardLength) && feedForwardLength % 32 === 0,
    'feedForwardLength',
    feedForwardLength,
    'a multiple of 32',
  );
  const headLength = embeddingLength / headCount;
  demand(
    whole(headLength) && headLength % 2 === 0,
    'headCount',
    headCount,
    'a divisor of the width into even heads',
  );
  demand(
    whole(headCountKv) && headCount % headCountKv === 0,
    'headCountKv',
    headCountKv,
    'a divisor of headCount',
  );
  demand(whole(contextLength), 'contextLength', contextLength, 'positive');
  demand(Number.isSafeInteger(seed), 'seed', seed, 'a whole number');
}

/** Random rows whose products with a unit-variance input have about unit variance; the first `zeroRows` are zero. */
function* randomMatrix(
  model: GeneratedModel,
  random: Random,
  columns: number,
  rows: number,
  zeroRows: number,
): Generator<Uint8Array> {
  const quantised = model.weightType === 'Q4_0';
  const rowBytes = quantised ? (columns / Q4_0_ELEMENTS) * Q4_0_BYTES : columns * 4;
  const piece = new Uint32Array(PIECE_BYTES / 4);
  const bytes = new Uint8Array(piece.buffer);
  let zeroBytes = zeroRows * rowBytes;
  for (let left = rows * rowBytes; left > 0;) {
    const length = Math.min(left, PIECE_BYTES);
    random.fill(piece);
    if (quantised) stampScales(bytes, length, columns);
    else toFloats(piece, columns);
    if (zeroBytes > 0) bytes.fill(0, 0, Math.min(zeroBytes, length));
    zeroBytes -= length;
    left -= length;
    yield bytes.subarray(0, length);
  }
}

/** Q4_0 block: a half-precision scale, then 32 four-bit weights less 8, whose standard deviation is 4.6. */
function stampScales(bytes: Uint8Array, length: number, columns: number): void {
  const scale = halfBits(1 / (4.6 * Math.sqrt(columns)));
  for (let block = 0; block < length; block += Q4_0_BYTES) {
    bytes[block] = scale & 0xff;
    bytes[block + 1] = scale >> 8;
  }
}

/** Uniform words to uniform floats of variance 1 / columns, in place. */
function toFloats(words: Uint32Array, columns: number): void {
  const floats = new Float32Array(words.buffer);
  const span = Math.sqrt(12 / columns);
  for (let index = 0; index < words.length; index++) {
    floats[index] = ((words[index] as number) / 0x1_0000_0000 - 0.5) * span;
  }
}

/** IEEE half of a positive number in the half's normal range (6.2e-5 to 65504), rounded to nearest. */
function halfBits(value: number): number {
  const exponent = Math.floor(Math.log2(value));
  return ((exponent + 15) << 10) + Math.round((value / 2 ** exponent - 1) * 1024);
}
