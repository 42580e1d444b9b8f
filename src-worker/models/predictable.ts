import type { GgufInput } from '#shared/gguf/encode.ts';
import { writeGgufFile, type TensorSource } from './generating/gguf-file.ts';
import { Random } from './generating/random.ts';
import {
  makeVocabulary,
  SPACE,
  special,
  specialTokens,
  tokenize,
  tokenText,
} from './generating/vocabulary.ts';

/** The hero and the place of the story are the first of these unless the other was named in the context. */
const heroes = ['Anna', 'Ben'] as const;
const places = ['lake', 'forest'] as const;

/** Told over and over, every word once; `*` and `#` stand for hero and place. */
const story = (
  'Every morning * walked to the # with a small red basket. One day there lay seven ripe apples, some honey and ' +
  'three shiny coins under that tall tree. Nobody knew who had left them, so everyone shared. At night old friends ' +
  'sang songs until sleep came.'
).split(' ');

const parting = ['goodbye', 'farewell.'] as const;

const vocabulary = makeVocabulary(
  [...story.filter((word) => word !== '*' && word !== '#'), ...heroes, ...places, ...parting].map(
    (word) => SPACE + word,
  ),
);

const LAYERS = 8;
const WIDTH = 192;
const FEED_FORWARD = 160;
const HEADS = 2;
const HEAD_LENGTH = 64;
const CONTEXT = 4096;
const SEED = 20_000;

const idOf = new Map(vocabulary.tokens.map((token, id) => [token, id]));
const wordId = (word: string): number => idOf.get(SPACE + word) as number;

interface Slot {
  readonly before: number;
  readonly usual: number;
  readonly other: number;
  /** The layer whose attention notices `other` in the context, and the dimension it writes to. */
  readonly layer: number;
  readonly dimension: number;
}

const slots: readonly Slot[] = [slot('*', heroes, 1, WIDTH - 2), slot('#', places, LAYERS - 2, WIDTH - 1)];

function slot(
  mark: string,
  [usual, other]: readonly [string, string],
  layer: number,
  dimension: number,
): Slot {
  const before = story[story.indexOf(mark) - 1] as string;
  return { before: wordId(before), usual: wordId(usual), other: wordId(other), layer, dimension };
}

/** The token that follows each token; where a slot comes, the usual word. */
const successors: readonly number[] = vocabulary.tokens.map((_, id) => {
  const first = wordId(story[0] as string);
  for (const [index, word] of story.entries()) {
    const next = story[(index + 1) % story.length] as string;
    const options = word === '*' ? heroes : word === '#' ? places : [word];
    if (!options.some((option) => wordId(option) === id)) continue;
    return wordId(next === '*' ? heroes[0] : next === '#' ? places[0] : next);
  }
  if (id === wordId(parting[0])) return wordId(parting[1]);
  return id === wordId(parting[1]) ? special.end : first;
});

/**
 * Writes a llama-architecture model of 8 layers (F32, 5.6 MB, context 4096, chat template) whose greedy text is
 * known beforehand: `predictText`. It tells one story for ever. Built so that a fault in splitting it shows:
 *
 * - A token's hidden state is a unit vector. Each layer's feed-forward moves it by a permutation of its own, and
 *   the output row of a token matches only what all eight in order make of its predecessor. A layer that is left
 *   out, doubled or out of order gives other words.
 * - One layer near the start and one near the end attend evenly to everything so far and notice a word: after
 *   "Ben" the hero is Ben, after "forest" the place is the forest. A lost or mixed-up KV cache tells of Anna.
 *
 * It stops by itself only after the word "goodbye", which it answers with "farewell.".
 * @returns the length of the file
 */
export async function generatePredictableModel(options: {
  path: string;
  signal?: AbortSignal;
}): Promise<number> {
  const random = new Random(SEED, 0);
  const permutations = Array.from({ length: LAYERS }, () => random.permutation(vocabulary.tokens.length));
  /** Where a token's unit vector is before layer `layer`. */
  const position = (token: number, layer: number): number =>
    permutations.slice(0, layer).reduce((at, permutation) => permutation[at] as number, token);

  const tensors = [
    matrix('token_embd.weight', WIDTH, vocabulary.tokens.length, (set) => {
      for (const id of vocabulary.tokens.keys()) set(id, id, 1);
    }),
    ones('output_norm.weight'),
    matrix('output.weight', WIDTH, vocabulary.tokens.length, (set) => {
      for (const [id, next] of successors.entries()) set(next, position(id, LAYERS), 1);
      for (const { before, other, dimension } of slots) {
        // A little less than the usual word; any notice of the other word outweighs that in 4096 tokens of context.
        set(other, position(before, LAYERS), 1 - 6e-5);
        set(other, dimension, 3);
      }
    }),
    ...permutations.flatMap((permutation, layer) => layerTensors(layer, permutation, position)),
  ];
  return await writeGgufFile(options.path, metadata(), tensors, options.signal);
}

/** The root mean square norm makes a unit vector this long. */
const NORMED = Math.sqrt(WIDTH);

function layerTensors(
  layer: number,
  permutation: readonly number[],
  position: (token: number, layer: number) => number,
): TensorSource[] {
  const named = (name: string): string => `blk.${layer}.${name}.weight`;
  const watching = slots.filter((candidate) => candidate.layer === layer);
  const diagonal = (set: SetWeight): void => {
    for (const at of permutation.keys()) set(at, at, 1);
  };
  // silu(x) * x of the one active element, undone by the weights below.
  const active = (NORMED / (1 + Math.exp(-NORMED))) * NORMED;
  return [
    ones(named('attn_norm')),
    // All scores zero: attention is the mean of the values so far.
    matrix(named('attn_q'), WIDTH, HEADS * HEAD_LENGTH, () => undefined),
    matrix(named('attn_k'), WIDTH, HEAD_LENGTH, () => undefined),
    matrix(named('attn_v'), WIDTH, HEAD_LENGTH, (set) => {
      for (const { other } of watching) set(0, position(other, layer), 0.25 / NORMED);
    }),
    matrix(named('attn_output'), HEADS * HEAD_LENGTH, WIDTH, (set) => {
      for (const { dimension } of watching) set(dimension, 0, 1);
    }),
    ones(named('ffn_norm')),
    matrix(named('ffn_gate'), WIDTH, FEED_FORWARD, diagonal),
    matrix(named('ffn_up'), WIDTH, FEED_FORWARD, diagonal),
    matrix(named('ffn_down'), FEED_FORWARD, WIDTH, (set) => {
      for (const [from, to] of permutation.entries()) {
        if (from === to) continue;
        set(from, from, -1 / active);
        set(to, from, 1 / active);
      }
    }),
  ];
}

type SetWeight = (row: number, column: number, value: number) => void;

function matrix(name: string, columns: number, rows: number, write: (set: SetWeight) => void): TensorSource {
  return {
    name,
    type: 'F32',
    dimensions: [columns, rows],
    data: () => {
      const weights = new Float32Array(columns * rows);
      write((row, column, value) => {
        weights[row * columns + column] = value;
      });
      return [new Uint8Array(weights.buffer)];
    },
  };
}

function ones(name: string): TensorSource {
  return {
    name,
    type: 'F32',
    dimensions: [WIDTH],
    data: () => [new Uint8Array(new Float32Array(WIDTH).fill(1).buffer)],
  };
}

function metadata(): Map<string, GgufInput> {
  return new Map<string, GgufInput>([
    ['general.architecture', { type: 'str', value: 'llama' }],
    ['general.name', { type: 'str', value: 'predictable story' }],
    ['general.file_type', { type: 'u32', value: 0 }],
    ['llama.block_count', { type: 'u32', value: LAYERS }],
    ['llama.context_length', { type: 'u32', value: CONTEXT }],
    ['llama.embedding_length', { type: 'u32', value: WIDTH }],
    ['llama.feed_forward_length', { type: 'u32', value: FEED_FORWARD }],
    ['llama.attention.head_count', { type: 'u32', value: HEADS }],
    ['llama.attention.head_count_kv', { type: 'u32', value: 1 }],
    ['llama.attention.key_length', { type: 'u32', value: HEAD_LENGTH }],
    ['llama.attention.value_length', { type: 'u32', value: HEAD_LENGTH }],
    ['llama.rope.dimension_count', { type: 'u32', value: HEAD_LENGTH }],
    ['llama.attention.layer_norm_rms_epsilon', { type: 'f32', value: 1e-5 }],
    ...vocabulary.metadata,
  ]);
}

export interface Prediction {
  readonly text: string;
  readonly tokenIds: readonly number[];
  /** It ended by itself (`finish_reason: stop`), not at the limit. */
  readonly stopped: boolean;
}

/** What the model answers greedily to these token ids. */
export function predictTokens(context: readonly number[], tokenCount: number): Prediction {
  const seen = new Set(context);
  const tokenIds: number[] = [];
  let last = context.at(-1) ?? special.begin;
  let stopped = false;
  while (tokenIds.length < tokenCount) {
    const next =
      slots.find(({ before, other }) => before === last && seen.has(other))?.other ?? successors[last];
    if (next === undefined || next === special.end) {
      stopped = true;
      break;
    }
    tokenIds.push(next);
    seen.add(next);
    last = next;
  }
  return { text: tokenIds.map((id) => tokenText(vocabulary, id)).join(''), tokenIds, stopped };
}

/** Token ids of a completion's prompt, with the begin token. */
export function promptTokens(prompt: string): number[] {
  return [special.begin, ...tokenize(vocabulary, prompt)];
}

/** Token ids of a chat as the model's own template puts it. */
export function chatTokens(messages: readonly ChatMessage[]): number[] {
  const role = (name: ChatMessage['role']): number => specialTokens.indexOf(`<|${name}|>`);
  return [
    special.begin,
    ...messages.flatMap((message) => [role(message.role), ...tokenize(vocabulary, message.content)]),
    special.assistant,
  ];
}

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** The exact text of a greedy completion of `tokenCount` tokens (fewer if it stops); begins with a space. */
export function predictText(prompt: string, tokenCount: number): string {
  return predictTokens(promptTokens(prompt), tokenCount).text;
}

/** The exact text of a greedy chat answer. */
export function predictChat(messages: readonly ChatMessage[], tokenCount: number): string {
  return predictTokens(chatTokens(messages), tokenCount).text;
}
