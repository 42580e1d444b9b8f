import { describe, expect, it } from 'vitest';
import { modelInfoSchema } from '../domain/model-info.ts';
import { encodeGgufHeader, type GgufInput, type TensorInput } from './encode.ts';
import { parseGgufHeader } from './header.ts';
import { summariseModel, type GgufPart } from './summarise.ts';

const u32 = (value: number): GgufInput => ({ type: 'u32', value });
const str = (value: string): GgufInput => ({ type: 'str', value });

function part(metadata: Record<string, GgufInput>, tensors: readonly TensorInput[]): GgufPart {
  const encoded = encodeGgufHeader(new Map(Object.entries(metadata)), tensors);
  const parsed = parseGgufHeader(encoded.bytes, encoded.fileBytes);
  if (parsed.kind !== 'ok') throw new Error(JSON.stringify(parsed));
  return { header: parsed.header, fileBytes: encoded.fileBytes };
}

const llama = {
  'general.architecture': str('llama'),
  'general.name': str('  Tiny  '),
  'general.file_type': u32(15),
  'llama.block_count': u32(2),
  'llama.context_length': u32(4096),
  'llama.embedding_length': u32(64),
  'llama.feed_forward_length': u32(128),
  'llama.attention.head_count': u32(8),
  'llama.attention.head_count_kv': u32(2),
  'tokenizer.ggml.tokens': { type: 'arr', of: 'str', values: ['a', 'b', 'c'] },
  'tokenizer.chat_template': str('{{ messages }}'),
} satisfies Record<string, GgufInput>;

const tensors: readonly TensorInput[] = [
  { name: 'token_embd.weight', type: 'F32', dimensions: [64, 3] },
  { name: 'output_norm.weight', type: 'F32', dimensions: [64] },
  { name: 'output.weight', type: 'F16', dimensions: [64, 3] },
  { name: 'rope_freqs.weight', type: 'F32', dimensions: [4] },
  { name: 'blk.0.attn_q.weight', type: 'Q4_0', dimensions: [64, 64] },
  { name: 'blk.1.attn_q.weight', type: 'Q8_0', dimensions: [64, 64] },
  { name: 'blk.1.ffn_up.weight', type: 'Q4_0', dimensions: [64, 128] },
];

function info(metadata: Record<string, GgufInput>, withTensors = tensors) {
  const result = summariseModel([part(metadata, withTensors)], 'file');
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  return modelInfoSchema.parse(result.value);
}

describe('summariseModel', () => {
  it('adds up tensors by where the engine puts them', () => {
    const summary = info(llama);
    expect(summary.tensorBytes).toEqual({
      embedding: 64 * 3 * 4,
      output: 64 * 4 + 64 * 3 * 2,
      layers: [128 * 18, 128 * 34 + 256 * 18],
      other: 16,
    });
    expect(summary).toMatchObject({
      name: 'Tiny',
      architecture: 'llama',
      layerCount: 2,
      contextLength: 4096,
      headCount: 8,
      headCountKv: 2,
      keyLength: 8,
      valueLength: 8,
      vocabSize: 3,
      fileType: 'Q4_K_M',
      hasChatTemplate: true,
      tiedOutput: false,
      kvElements: [32, 32],
      stateBytes: [0, 0],
      pooling: null,
      embeddingOnly: false,
      split: null,
    });
  });

  it('takes per-layer head counts layer by layer', () => {
    const summary = info({
      ...llama,
      'llama.attention.head_count_kv': { type: 'arr', of: 'i32', values: [4, 0] },
      'llama.attention.key_length': u32(16),
    });
    expect(summary.headCountKv).toBe(4);
    expect(summary.kvElements).toEqual([4 * (16 + 8), 0]);
  });

  it('keeps K only for multi-head latent attention', () => {
    const summary = info({
      ...llama,
      'llama.attention.head_count_kv': u32(1),
      'llama.attention.key_length': u32(576),
      'llama.attention.value_length': u32(512),
      'llama.attention.key_length_mla': u32(192),
    });
    expect(summary.kvElements).toEqual([576, 576]);
  });

  it('counts the recurrent state of the layers that have one', () => {
    const ssm = {
      'llama.ssm.conv_kernel': u32(4),
      'llama.ssm.inner_size': u32(128),
      'llama.ssm.state_size': u32(16),
      'llama.ssm.group_count': u32(1),
    };
    const bytes = 4 * (3 * (128 + 2 * 16) + 16 * 128);
    const heads: GgufInput = { type: 'arr', of: 'i32', values: [0, 2] };
    expect(info({ ...llama, ...ssm, 'llama.attention.head_count_kv': heads }).stateBytes).toEqual([bytes, 0]);
    expect(info({ ...llama, ...ssm }).stateBytes).toEqual([bytes, bytes]);
    const interval = info({ ...llama, ...ssm, 'llama.full_attention_interval': u32(2) });
    expect(interval.stateBytes).toEqual([bytes, 0]);
    expect(interval.kvElements).toEqual([0, 32]);
  });

  it('knows a tied output, an embedding model and the type without general.file_type', () => {
    const tied = info(
      { ...llama, 'general.file_type': u32(9999), 'llama.pooling_type': u32(1) },
      tensors.filter((tensor) => tensor.name !== 'output.weight'),
    );
    expect(tied).toMatchObject({ tiedOutput: true, pooling: 'mean', embeddingOnly: true, fileType: 'Q4_0' });
  });

  it('sums shards, whose first may hold metadata only', () => {
    const split = (index: number) => ({
      'split.no': u32(index),
      'split.count': u32(3),
      'split.tensors.count': u32(7),
    });
    const parts = [
      part({ ...llama, ...split(0) }, []),
      part({ 'general.architecture': str('llama'), ...split(1) }, tensors.slice(0, 4)),
      part({ 'general.architecture': str('llama'), ...split(2) }, tensors.slice(4)),
    ];
    const result = summariseModel(parts, 'file');
    if (!result.ok) throw new Error(result.error.message);
    expect(result.value.tensorBytes).toEqual(info(llama).tensorBytes);
    expect(result.value.split).toEqual({ index: 0, count: 3 });
    expect(result.value.fileBytes).toBe(parts.reduce((sum, each) => sum + each.fileBytes, 0));

    const short = summariseModel(parts.slice(0, 2), 'file');
    expect(short.ok ? null : short.error).toMatchObject({ code: 'invalid', field: 'split.tensors.count' });
  });

  it.each([
    ['llama.block_count', { ...llama, 'llama.block_count': u32(0) }],
    ['llama.block_count', { ...llama, 'llama.block_count': u32(513) }],
    ['llama.block_count', { ...llama, 'llama.block_count': str('two') }],
    [
      'llama.context_length',
      Object.fromEntries(Object.entries(llama).filter(([key]) => !key.includes('context'))),
    ],
    [
      'llama.attention.head_count_kv',
      { ...llama, 'llama.attention.head_count_kv': { type: 'arr', of: 'i32', values: [1] } },
    ],
    [
      'llama.attention.head_count_kv',
      { ...llama, 'llama.attention.head_count_kv': { type: 'arr', of: 'i32', values: [1, -1] } },
    ],
    ['general.architecture', { ...llama, 'general.architecture': str('') }],
    ['general.name', { ...llama, 'general.name': u32(1) }],
  ] as [string, Record<string, GgufInput>][])('refuses a bad %s by name', (field, metadata) => {
    const result = summariseModel([part(metadata, tensors)], 'file');
    expect(result.ok ? null : result.error).toMatchObject({ code: 'invalid', field });
  });

  it('refuses what is a GGUF but no model', () => {
    const adapter = summariseModel([part({ ...llama, 'general.type': str('adapter') }, tensors)], 'file');
    expect(adapter.ok ? null : adapter.error.code).toBe('unsupported');
    const clip = summariseModel([part({ ...llama, 'general.architecture': str('clip') }, tensors)], 'file');
    expect(clip.ok ? null : clip.error.code).toBe('unsupported');
    const empty = summariseModel([part(llama, [])], 'file');
    expect(empty.ok ? null : empty.error).toMatchObject({ code: 'invalid', field: 'tensors' });
  });
});
