import { MAX_LAYERS, type ModelInfo } from '../domain/model-info.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { GgufError, GgufHeader } from './format.ts';
import { Metadata } from './metadata.ts';
import { Malformed } from './reader.ts';
import { fileTypeLabel } from './tensor-types.ts';

export interface GgufPart {
  readonly header: GgufHeader;
  readonly fileBytes: number;
}

/** `unsupported`: a valid GGUF that is no model one can serve. */
export type SummaryError = Omit<GgufError, 'code'> & { readonly code: 'invalid' | 'unsupported' };

/** Architectures without a decoder: they embed or rank. */
const encoders: ReadonlySet<string> = new Set([
  'bert',
  'modern-bert',
  'neo-bert',
  'nomic-bert',
  'nomic-bert-moe',
  'jina-bert-v2',
  'jina-bert-v3',
  'eurobert',
  'gemma-embedding',
  't5encoder',
]);

/** llama_pooling_type by number. */
const poolings = ['none', 'mean', 'cls', 'last', 'rank'] as const;

const embeddingTensors = /^(token_embd|position_embd|token_types|token_embd_norm|per_layer_token_embd)(\.|$)/;
const outputTensors =
  /^(enc\.|dec\.)?(output|output_norm|cls|cls\.output|cls\.norm|dense_2|dense_3)\.(weight|bias|scale)$/;
const layerTensors = /^(?:enc\.|dec\.)?blk\.(\d{1,4})\./;

/**
 * What the headers of a model (one, or one per shard in order) say about it. Keys and their defaults are those
 * of the engine's `load_hparams`; per-layer arrays (head counts of hybrid models) are taken layer by layer.
 * @param fallbackName used when the file names no model
 */
export function summariseModel(
  parts: readonly GgufPart[],
  fallbackName: string,
): Result<ModelInfo, SummaryError> {
  const first = parts[0];
  if (first === undefined) return err({ code: 'invalid', message: 'there is no file', field: 'file' });
  const metadata = new Metadata(first.header.metadata);
  try {
    const refusal = notAModel(metadata);
    if (refusal !== null) return err({ code: 'unsupported', message: refusal, field: metadata.field });
    return ok(summarise(metadata, parts, fallbackName));
  } catch (thrown) {
    if (thrown instanceof Malformed) {
      return err({ code: 'invalid', message: thrown.message, field: metadata.field.slice(0, 128) });
    }
    throw thrown;
  }
}

function notAModel(metadata: Metadata): string | null {
  const type = metadata.text('general.type');
  if (type !== undefined && type !== 'model') return `it holds a ${type.slice(0, 32)}, not a model`;
  const architecture = metadata.text('general.architecture');
  if (architecture === 'clip') return 'it holds an image projector, not a language model';
  return null;
}

function summarise(metadata: Metadata, parts: readonly GgufPart[], fallbackName: string): ModelInfo {
  const architecture = metadata.text('general.architecture') ?? '';
  if (architecture === '' || architecture.length > 64)
    throw new Malformed('invalid', 'it must name an architecture');
  const key = (name: string): string => `${architecture}.${name}`;

  const layerCount = metadata.required(key('block_count'));
  if (layerCount < 1 || layerCount > MAX_LAYERS) {
    throw new Malformed('invalid', `it must be from 1 to ${MAX_LAYERS}, found ${layerCount}`);
  }
  const contextLength = metadata.required(key('context_length'));
  const embeddingLength = metadata.required(key('embedding_length'));
  const feedForward = metadata.perLayer(key('feed_forward_length'), layerCount) ?? [];
  const heads =
    metadata.perLayer(key('attention.head_count'), layerCount) ?? new Array<number>(layerCount).fill(0);
  const headsKv = metadata.perLayer(key('attention.head_count_kv'), layerCount) ?? heads;
  const headCount = Math.max(...heads);
  const headLength = headCount === 0 ? 0 : Math.floor(embeddingLength / headCount);
  const keyLength = metadata.integer(key('attention.key_length')) ?? headLength;
  const valueLength = metadata.integer(key('attention.value_length')) ?? headLength;

  const recurrent = recurrentLayers(metadata, key, headsKv);
  // With multi-head latent attention the cache holds K only; V is a view of it.
  const latent = metadata.has(key('attention.key_length_mla'));
  const elementsPerHead = headCount === 0 ? 0 : keyLength + (latent ? 0 : valueLength);
  const interval = metadata.integer(key('full_attention_interval')) ?? 0;
  const kvElements = headsKv.map((count, layer) =>
    interval > 0 && recurrent.layers[layer] === true ? 0 : count * elementsPerHead,
  );

  const pooling = poolings[metadata.integer(key('pooling_type')) ?? -1] ?? null;
  const causal = metadata.boolean(key('attention.causal')) ?? true;
  const shardCount = metadata.integer('split.count') ?? 1;
  const tensorCount = metadata.integer('split.tensors.count');
  const tensors = parts.flatMap((part) => part.header.tensors);
  if (parts.length > 1 && tensorCount !== undefined && tensorCount !== tensors.length) {
    throw new Malformed(
      'invalid',
      `the shards hold ${tensors.length} tensors together, expected ${tensorCount}`,
    );
  }
  metadata.field = 'tensors';
  if (tensors.length === 0 && shardCount === parts.length)
    throw new Malformed('invalid', 'it holds no tensors');

  return {
    name: (metadata.text('general.name')?.trim() || fallbackName || 'model').slice(0, 256),
    architecture,
    fileBytes: parts.reduce((sum, part) => sum + part.fileBytes, 0),
    layerCount,
    contextLength,
    embeddingLength,
    feedForwardLength: Math.max(0, ...feedForward),
    headCount,
    headCountKv: Math.max(...headsKv),
    keyLength,
    valueLength,
    vocabSize: metadata.length('tokenizer.ggml.tokens') || (metadata.integer(key('vocab_size')) ?? 0),
    fileType: fileTypeLabel(metadata.integer('general.file_type') ?? -1) ?? commonestType(parts),
    hasChatTemplate: metadata.has('tokenizer.chat_template'),
    tensorBytes: tensorBytes(parts, layerCount),
    tiedOutput: !tensors.some((tensor) => /^(dec\.)?output\.weight$/.test(tensor.name)),
    kvElements,
    stateBytes: recurrent.layers.map((is) => (is ? recurrent.bytes : 0)),
    pooling,
    embeddingOnly: encoders.has(architecture) || !causal || (pooling !== null && pooling !== 'none'),
    split: shardCount > 1 ? { index: metadata.integer('split.no') ?? 0, count: shardCount } : null,
  };
}

/**
 * Which layers keep a recurrent state, and its bytes per sequence: `n_embd_r` + `n_embd_s` of llama-hparams.cpp,
 * kept in F32. Where nothing tells attention layers from recurrent ones, every layer counts as both.
 */
function recurrentLayers(
  metadata: Metadata,
  key: (name: string) => string,
  headsKv: readonly number[],
): { bytes: number; layers: boolean[] } {
  const get = (name: string): number => metadata.integer(key(name)) ?? 0;
  const embedding = get('embedding_length');
  const convolution = Math.max(0, get('ssm.conv_kernel') - 1);
  let elements = 0;
  if (get('wkv.head_size') > 0) {
    elements = embedding * ((metadata.integer(key('token_shift_count')) ?? 2) + get('wkv.head_size'));
  } else if (get('shortconv.l_cache') > 0) {
    elements = embedding * (get('shortconv.l_cache') - 1);
  } else if (get('kda.head_dim') > 0) {
    const heads = Math.max(1, ...(metadata.perLayer(key('attention.head_count'), headsKv.length) ?? []));
    elements = heads * get('kda.head_dim') * (3 * (convolution || 3) + get('kda.head_dim'));
  } else {
    const inner = get('ssm.inner_size');
    const state = get('ssm.state_size');
    elements = convolution * (inner + 2 * get('ssm.group_count') * state) + state * inner;
  }
  const interval = get('full_attention_interval');
  const marked = headsKv.map((count, layer) => (interval > 0 ? (layer + 1) % interval !== 0 : count === 0));
  const layers =
    elements === 0 ? marked.map(() => false) : marked.includes(true) ? marked : marked.map(() => true);
  return { bytes: elements * 4, layers };
}

function tensorBytes(parts: readonly GgufPart[], layerCount: number): ModelInfo['tensorBytes'] {
  const bytes = { embedding: 0, output: 0, layers: new Array<number>(layerCount).fill(0), other: 0 };
  for (const tensor of parts.flatMap((part) => part.header.tensors)) {
    const layer = Number(layerTensors.exec(tensor.name)?.[1] ?? -1);
    if (layer >= 0 && layer < layerCount) bytes.layers[layer] = (bytes.layers[layer] ?? 0) + tensor.bytes;
    else if (embeddingTensors.test(tensor.name)) bytes.embedding += tensor.bytes;
    else if (outputTensors.test(tensor.name)) bytes.output += tensor.bytes;
    else bytes.other += tensor.bytes;
  }
  return bytes;
}

/** The tensor type that most bytes have. */
function commonestType(parts: readonly GgufPart[]): string {
  const bytes = new Map<string, number>();
  for (const tensor of parts.flatMap((part) => part.header.tensors)) {
    bytes.set(tensor.type.name, (bytes.get(tensor.type.name) ?? 0) + tensor.bytes);
  }
  let commonest = 'unknown';
  for (const [name, size] of bytes) if (size > (bytes.get(commonest) ?? -1)) commonest = name;
  return commonest;
}
