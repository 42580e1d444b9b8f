import { describe, expect, test } from 'vitest';
import { createRandom } from './random.ts';
import { mutateJsonText } from './mutate.ts';
import { readCorpus } from './corpus.ts';
import { FuzzFailure, fuzz } from './runner.ts';
import type { FuzzPlan } from './target.ts';

const plan: FuzzPlan = { name: 'faulty', share: 1, deadlineMs: 1_500, growthBytes: 2_000_000 };

describe('fuzzing finds', () => {
  test.each([
    ['an exception', 'throw', /crash in faulty, seed 7, input 99: Error: it broke\n/],
    ['an endless loop', 'loop', /hang in faulty, seed 7, input 99: /],
    ['a wait without end', 'wait', /hang in faulty, seed 7, input 99: /],
    ['a rejection that nobody handles', 'later', /crash in faulty, seed 7, input \d+: Error: it broke later/],
    ['memory that is kept', 'leak', /memory growth in faulty, seed 7, input 1999: \d+\.\d MB more/],
  ])('%s', async (_name, context, message) => {
    const failure: unknown = await fuzz(plan, { inputs: 2_000, seed: 7, context }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(FuzzFailure);
    expect((failure as FuzzFailure).message).toMatch(message);
    expect((failure as FuzzFailure).message).toMatch(
      /replay: node e2e\/fuzz\/run\.ts --target faulty --seed 7/,
    );
  });

  test('nothing where nothing is', async () => {
    expect(await fuzz(plan, { inputs: 2_000, seed: 7 })).toMatchObject({ target: 'faulty', inputs: 2_000 });
  });
});

describe('inputs', () => {
  const corpus = readCorpus('worker-frames.jsonl');
  const made = (seed: number): string[] => {
    const random = createRandom(seed);
    return Array.from({ length: 500 }, () => mutateJsonText(random, corpus));
  };

  test('are the same for the same seed and others for another', () => {
    expect(made(1)).toEqual(made(1));
    expect(made(1)).not.toEqual(made(2));
  });

  test('are mostly JSON still, and mostly not what they were', () => {
    const all = made(3);
    const isJson = (text: string): boolean => {
      try {
        JSON.parse(text);
        return true;
      } catch {
        return false;
      }
    };
    expect(all.filter(isJson).length / all.length).toBeGreaterThan(0.5);
    expect(all.filter((text) => corpus.includes(text)).length / all.length).toBeLessThan(0.4);
  });
});
