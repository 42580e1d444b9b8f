import type { GgufInput } from '#shared/gguf/encode.ts';

/**
 * A vocabulary for made models: a unigram tokenizer (`t5` in GGUF) over single printable ASCII characters and
 * whole words. It has no byte tokens, so whatever a model picks is valid UTF-8, and every ASCII prompt has a
 * tokenization.
 */
export interface Vocabulary {
  readonly tokens: readonly string[];
  readonly words: readonly string[];
  readonly metadata: ReadonlyMap<string, GgufInput>;
}

/** Ids of the special tokens; none of them is ever emitted unless a model is made to. */
export const special = { unknown: 0, begin: 1, end: 2, system: 3, user: 4, assistant: 5 } as const;
export const specialTokens = ['<unk>', '<s>', '</s>', '<|system|>', '<|user|>', '<|assistant|>'] as const;

/** The engine's mark for a space, U+2581. */
export const SPACE = '\u2581';

/** Log probabilities: a word always beats its letters. Whole numbers, so that sums are exact. */
const WORD_SCORE = -2;
const LETTER_SCORE = -10;
/** llama-vocab.cpp: the lowest score less 10, for a character that no token covers. */
const UNKNOWN_SCORE = LETTER_SCORE - 10;

const tokenTypes = { normal: 1, unknown: 2, control: 3 } as const;

const letters = ['\n', SPACE, ...Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index))];

/** `<|role|>` before each message, no line breaks: every part of a prompt has one tokenization. */
export const chatTemplate =
  '{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{% endfor %}' +
  '{% if add_generation_prompt %}<|assistant|>{% endif %}';

/** @param words as the tokenizer sees them, with SPACE in front where a space is */
export function makeVocabulary(words: readonly string[]): Vocabulary {
  const tokens = [...specialTokens, ...letters, ...words];
  if (new Set(tokens).size !== tokens.length) throw new RangeError('a word of the vocabulary appears twice');
  const specials = specialTokens.length;
  const metadata = new Map<string, GgufInput>([
    ['tokenizer.ggml.model', { type: 'str', value: 't5' }],
    ['tokenizer.ggml.tokens', { type: 'arr', of: 'str', values: tokens }],
    ['tokenizer.ggml.scores', { type: 'arr', of: 'f32', values: tokens.map((token) => score(token, words)) }],
    [
      'tokenizer.ggml.token_type',
      {
        type: 'arr',
        of: 'i32',
        values: tokens.map((_, id) =>
          id === special.unknown
            ? tokenTypes.unknown
            : id < specials
              ? tokenTypes.control
              : tokenTypes.normal,
        ),
      },
    ],
    ['tokenizer.ggml.unknown_token_id', { type: 'u32', value: special.unknown }],
    ['tokenizer.ggml.bos_token_id', { type: 'u32', value: special.begin }],
    ['tokenizer.ggml.eos_token_id', { type: 'u32', value: special.end }],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: true }],
    ['tokenizer.ggml.add_eos_token', { type: 'bool', value: false }],
    ['tokenizer.ggml.add_space_prefix', { type: 'bool', value: true }],
    ['tokenizer.chat_template', { type: 'str', value: chatTemplate }],
  ]);
  return { tokens, words, metadata };
}

function score(token: string, words: readonly string[]): number {
  return words.includes(token) ? WORD_SCORE : LETTER_SCORE;
}

/**
 * Token ids of a text as the engine's unigram tokenizer gives them, without special tokens: spaces become SPACE,
 * one more stands in front, then the path with the highest score (the first found among equals); neighbouring
 * unknown characters are one unknown token.
 */
export function tokenize(vocabulary: Vocabulary, text: string): number[] {
  const ids = new Map(vocabulary.tokens.map((token, id) => [token, id]));
  // The space in front goes before the first character that is not a space.
  const spaced = text.replace(/[^ ]/, (first) => ` ${first}`).replaceAll(' ', SPACE);
  const characters = [...spaced];
  const longest = Math.max(...vocabulary.tokens.map((token) => [...token].length));
  const best: { total: number; id: number; from: number }[] = [{ total: 0, id: special.unknown, from: 0 }];
  for (let from = 0; from < characters.length; from++) {
    const total = best[from]?.total ?? -Infinity;
    const offer = (to: number, id: number, gain: number): void => {
      if (total + gain > (best[to]?.total ?? -Infinity)) best[to] = { total: total + gain, id, from };
    };
    for (let length = 1; length <= longest && from + length <= characters.length; length++) {
      const id = ids.get(characters.slice(from, from + length).join(''));
      if (id !== undefined && id >= specialTokens.length) {
        offer(from + length, id, score(vocabulary.tokens[id] as string, vocabulary.words));
      }
    }
    if (!ids.has(characters[from] as string)) offer(from + 1, special.unknown, UNKNOWN_SCORE);
  }
  const path: number[] = [];
  for (let at = characters.length; at > 0; at = best[at]?.from ?? 0) {
    const id = best[at]?.id ?? special.unknown;
    if (id !== special.unknown || path[0] !== special.unknown) path.unshift(id);
  }
  return path;
}

/** What the engine prints for a token; special tokens print nothing. */
export function tokenText(vocabulary: Vocabulary, id: number): string {
  return id < specialTokens.length ? '' : (vocabulary.tokens[id] ?? '').replaceAll(SPACE, ' ');
}

/** `count` made-up words, half of them with a space in front: `\u2581ba`, `lor`. */
export function syllableWords(count: number): string[] {
  const onsets = [...'bcdfghjklmnprstvwz'];
  const codas = ['n', 'r', 's', 'l', 't', 'm', 'k', 'd'];
  const words: string[] = [];
  for (const coda of codas) {
    for (const onset of onsets) {
      for (const vowel of 'aeiou') {
        for (const front of [SPACE, '']) {
          if (words.length === count) return words;
          words.push(`${front}${onset}${vowel}${coda}`);
        }
      }
    }
  }
  return words;
}
