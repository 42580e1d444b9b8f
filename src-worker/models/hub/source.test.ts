import { describe, expect, it } from 'vitest';
import { bestModel, modelFiles } from './source.ts';

describe('bestModel', () => {
  const files = (...paths: string[]) => paths.map((path, index) => ({ path, bytes: 1000 + index }));

  it('takes the only one', () => {
    expect(bestModel(files('README.md', 'model-F32.gguf'))).toEqual(['model-F32.gguf']);
    expect(bestModel(files('README.md', 'weights.safetensors'))).toEqual([]);
  });

  it('takes Q4_K_M, then what comes next in the list, else the smallest', () => {
    expect(bestModel(files('m-Q8_0.gguf', 'm-Q4_K_M.gguf', 'm-Q4_0.gguf'))).toEqual(['m-Q4_K_M.gguf']);
    expect(bestModel(files('m.q8_0.gguf', 'm.f16.gguf'))).toEqual(['m.q8_0.gguf']);
    expect(bestModel(files('Q4_0_notes.gguf', 'm-iq4_xs.gguf'))).toEqual(['m-iq4_xs.gguf']);
    expect(
      bestModel([
        { path: 'big.gguf', bytes: 9 },
        { path: 'small.gguf', bytes: 3 },
      ]),
    ).toEqual(['small.gguf']);
  });

  it('leaves out what is no model', () => {
    expect(bestModel(files('mmproj-model-f16.gguf', 'imatrix.gguf', 'mtp-m.gguf', 'm-Q8_0.gguf'))).toEqual([
      'm-Q8_0.gguf',
    ]);
  });

  it('takes whole sets of shards only', () => {
    const whole = ['Q4_K_M/m-Q4_K_M-00001-of-00002.gguf', 'Q4_K_M/m-Q4_K_M-00002-of-00002.gguf'];
    expect(bestModel(files('m-Q8_0.gguf', ...whole))).toEqual(whole);
    expect(bestModel(files('m-Q8_0.gguf', whole[0] as string))).toEqual(['m-Q8_0.gguf']);
    expect(modelFiles(whole[1] as string)).toEqual(whole);
  });

  it('prefers the root, then the first name', () => {
    expect(bestModel(files('old/m-Q4_K_M.gguf', 'z-Q4_K_M.gguf', 'm-Q4_K_M.gguf'))).toEqual([
      'm-Q4_K_M.gguf',
    ]);
  });
});
