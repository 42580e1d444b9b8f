import { existsSync } from 'node:fs';
import { mkdir, rename, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { generateModel } from '../../src-worker/models/generate.ts';
import { generatePredictableModel } from '../../src-worker/models/predictable.ts';
import { checkout } from './checkout.ts';

/** A small real model, beside the checkout or where COVEY_TEST_MODEL says; null when there is none. */
export function storiesModel(): string | null {
  const candidate =
    process.env['COVEY_TEST_MODEL'] ?? path.join(checkout, '..', 'shared', 'models', 'stories260K.gguf');
  return existsSync(candidate) ? candidate : null;
}

export const storiesMissing =
  'stories260K.gguf is not there: put it beside the checkout or set COVEY_TEST_MODEL';

/** Generated models are the same every time, so all tests of a machine share one copy. */
const directory = path.join(os.tmpdir(), `covey-test-models-${process.getuid?.() ?? 0}`);

async function once(name: string, generate: (file: string) => Promise<number>): Promise<string> {
  const file = path.join(directory, name);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (await stat(file).catch(() => null)) return file;
  const partial = `${file}.${process.pid}`;
  await generate(partial);
  await rename(partial, file);
  return file;
}

/** Tiny, eight layers, its greedy answers are known by construction (`predictText`). */
export function predictableModel(): Promise<string> {
  return once('predictable-1.gguf', (file) => generatePredictableModel({ path: file }));
}

/** About 100 MB and slow enough to be interrupted: on 2 cores some 100 tokens a second. */
export function heavyModel(): Promise<string> {
  return once('random-100m-1.gguf', (file) =>
    generateModel({
      path: file,
      layers: 12,
      embeddingLength: 1024,
      feedForwardLength: 4096,
      headCount: 16,
      headCountKv: 4,
      contextLength: 4096,
      seed: 1,
      weightType: 'Q4_0',
    }),
  );
}
