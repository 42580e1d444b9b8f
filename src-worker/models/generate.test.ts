import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateModel, type GeneratedModel } from './generate.ts';
import {
  makeVocabulary,
  SPACE,
  special,
  syllableWords,
  tokenize,
  tokenText,
} from './generating/vocabulary.ts';
import { inspectModelFile } from './inspect.ts';
import {
  generatePredictableModel,
  predictChat,
  predictText,
  predictTokens,
  promptTokens,
} from './predictable.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-generate-'));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

const small = (changes: Partial<GeneratedModel> = {}): GeneratedModel => ({
  path: join(directory, 'model.gguf'),
  layers: 2,
  embeddingLength: 64,
  feedForwardLength: 128,
  headCount: 4,
  headCountKv: 2,
  contextLength: 512,
  seed: 1,
  weightType: 'Q4_0',
  ...changes,
});

async function sha256(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
}

describe('generateModel', () => {
  it('writes the same bytes for the same arguments, on every machine', async () => {
    const first = join(directory, 'first.gguf');
    const bytes = await generateModel(small({ path: first }));
    expect((await readFile(first)).length).toBe(bytes);
    expect(await sha256(first)).toBe('a6bd37c1367b932b21af91ba7673724c656cc36ae1e8d3a59a7d2871385081b0');
    const other = join(directory, 'other.gguf');
    await generateModel(small({ path: other, seed: 2 }));
    expect(await sha256(other)).not.toBe('a6bd37c1367b932b21af91ba7673724c656cc36ae1e8d3a59a7d2871385081b0');
  });

  it('writes a model of the sizes asked for', async () => {
    await generateModel(small({ weightType: 'F32', name: 'named' }));
    const result = await inspectModelFile(join(directory, 'model.gguf'));
    if (!result.ok) throw result.error;
    const layer = 4 * (2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128);
    expect(result.value.info).toMatchObject({
      name: 'named',
      layerCount: 2,
      embeddingLength: 64,
      feedForwardLength: 128,
      headCount: 4,
      headCountKv: 2,
      contextLength: 512,
      vocabSize: 512,
      fileType: 'F32',
      tensorBytes: { embedding: 4 * 64 * 512, layers: [layer, layer], other: 0 },
    });
  });

  it('leaves nothing behind when it is stopped', async () => {
    const folder = join(directory, 'stopped');
    const path = join(folder, 'model.gguf');
    await expect(generateModel(small({ path, signal: AbortSignal.abort() }))).rejects.toThrow();
    expect(await readdir(folder)).toEqual([]);
  });

  it.each([
    ['layers', { layers: 0 }],
    ['embeddingLength', { embeddingLength: 48 }],
    ['feedForwardLength', { feedForwardLength: 100 }],
    ['headCount', { headCount: 5 }],
    ['headCountKv', { headCountKv: 3 }],
    ['seed', { seed: 0.5 }],
  ])('refuses a %s that does not fit', async (field, changes) => {
    await expect(generateModel(small(changes))).rejects.toThrow(new RegExp(`^${field} must be`));
  });
});

describe('vocabulary', () => {
  const words = makeVocabulary(['\u2581the', '\u2581a', '\u2581an', 'the']);
  const text = (ids: readonly number[]): string[] => ids.map((id) => words.tokens[id] as string);

  it('takes whole words before letters, and puts a space in front', () => {
    expect(text(tokenize(words, 'the an the'))).toEqual(['\u2581the', '\u2581an', '\u2581the']);
    expect(text(tokenize(words, 'lathe'))).toEqual([SPACE, 'l', 'a', 'the']);
    expect(text(tokenize(words, ' the'))).toEqual([SPACE, '\u2581the']);
    expect(text(tokenize(words, 'a\nb'))).toEqual(['\u2581a', '\n', 'b']);
    expect(tokenize(words, '')).toEqual([]);
    expect(text(tokenize(words, 'é€ é'))).toEqual([SPACE, '<unk>', SPACE, '<unk>']);
  });

  it('gives printable ASCII back as it was, behind one space', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[!-~][ -~]*$/), (input) => {
        const back = tokenize(words, input).map((id) => tokenText(words, id));
        expect(back.join('')).toBe(` ${input}`);
      }),
    );
  });

  it('has no word twice', () => {
    expect(new Set(syllableWords(1000)).size).toBe(1000);
    expect(() => makeVocabulary(['x'])).toThrow(RangeError);
  });
});

describe('the predictable model', () => {
  it('is always the same', async () => {
    const path = join(directory, 'story.gguf');
    await generatePredictableModel({ path });
    expect(await sha256(path)).toBe('4bcfa44633ffb7bd3b42a23117c7e97e28673ce00c1587fa61278ed97778f237');
  });

  it('tells its story on', () => {
    expect(predictText('Once upon a time', 14)).toBe(
      ' Every morning Anna walked to the lake with a small red basket. One day',
    );
    expect(predictText('Every morning', 2)).toBe(' Anna walked');
    expect(predictText('until sleep came.', 2)).toBe(' Every morning');
    expect(predictText('', 1)).toBe(' Every');
  });

  it('remembers hero and place', () => {
    expect(predictText('In the forest lives Ben.', 7)).toBe(' Every morning Ben walked to the forest');
    expect(predictText('Ben', 3)).toBe(' walked to the');
    expect(predictText('ABen', 3)).toBe(' Every morning Anna');
    expect(predictChat([{ role: 'user', content: 'Tell me about Ben' }], 4)).toBe(
      ' Every morning Ben walked',
    );
  });

  it('stops after a farewell only', () => {
    expect(predictTokens(promptTokens('goodbye'), 10)).toMatchObject({ text: ' farewell.', stopped: true });
    const long = predictTokens(promptTokens('hello'), 500);
    expect(long.tokenIds).toHaveLength(500);
    expect(long.stopped).toBe(false);
    expect(long.tokenIds.every((id) => id > special.assistant)).toBe(true);
  });
});
