import { open } from 'node:fs/promises';
import { encodeGgufHeader, type GgufInput, type TensorInput } from '../../src-main/shared/gguf/encode.ts';

/** A well-formed header of a model of about 340 GB over a sparse file: it takes no disk. */
export async function encodeTestModelLargerThanMemory(file: string): Promise<void> {
  const width = 16_384;
  const layers = 80;
  const vocabulary = ['<unk>', '<s>', '</s>', 'a'];
  const u32 = (value: number): GgufInput => ({ type: 'u32', value });
  const metadata = new Map<string, GgufInput>([
    ['general.architecture', { type: 'str', value: 'llama' }],
    ['general.name', { type: 'str', value: 'huge' }],
    ['llama.context_length', u32(4096)],
    ['llama.embedding_length', u32(width)],
    ['llama.feed_forward_length', u32(width)],
    ['llama.block_count', u32(layers)],
    ['llama.attention.head_count', u32(128)],
    ['llama.attention.head_count_kv', u32(8)],
    ['llama.rope.dimension_count', u32(128)],
    ['llama.attention.layer_norm_rms_epsilon', { type: 'f32', value: 1e-5 }],
    ['tokenizer.ggml.model', { type: 'str', value: 'llama' }],
    ['tokenizer.ggml.tokens', { type: 'arr', of: 'str', values: vocabulary }],
  ]);
  const matrix = (name: string): TensorInput => ({ name, type: 'F32', dimensions: [width, width] });
  const vector = (name: string): TensorInput => ({ name, type: 'F32', dimensions: [width] });
  const tensors = [
    { name: 'token_embd.weight', type: 'F32', dimensions: [width, vocabulary.length] },
    vector('output_norm.weight'),
    { name: 'output.weight', type: 'F32', dimensions: [width, vocabulary.length] },
    ...Array.from({ length: layers }, (_, layer) => [
      vector(`blk.${layer}.attn_norm.weight`),
      ...['attn_q', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'].map((part) =>
        matrix(`blk.${layer}.${part}.weight`),
      ),
      vector(`blk.${layer}.ffn_norm.weight`),
    ]).flat(),
  ];
  const header = encodeGgufHeader(metadata, tensors);
  const handle = await open(file, 'w');
  try {
    await handle.write(header.bytes);
    await handle.truncate(header.fileBytes);
  } finally {
    await handle.close();
  }
}
