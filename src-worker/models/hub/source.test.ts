import { describe, expect, it } from 'vitest';
import { bestModel, modelFiles, parseHubSource } from './source.ts';

describe('parseHubSource', () => {
  it('reads a repository and a file in it', () => {
    expect(parseHubSource('hf:owner/repo')).toEqual({
      ok: true,
      value: { repository: 'owner/repo', file: null },
    });
    expect(parseHubSource('hf:ggml-org/models/tinyllamas/stories260K.gguf')).toEqual({
      ok: true,
      value: { repository: 'ggml-org/models', file: 'tinyllamas/stories260K.gguf' },
    });
    expect(parseHubSource('hf:a_b/Model-3.2_x/Q4 K.GGUF').ok).toBe(true);
  });

  it.each([
    'owner/repo',
    'hf:',
    'hf:owner',
    'hf:owner/',
    'hf:/repo',
    'hf:../repo',
    'hf:owner/.hidden',
    'hf:owner/repo/',
    'hf:owner/repo/../x.gguf',
    'hf:owner/repo//x.gguf',
    'hf:owner/repo/x.bin',
    'hf:owner/repo/x\n.gguf',
    'hf:owner/re po',
    `hf:owner/${'x'.repeat(97)}`,
  ])('refuses %j', (source) => {
    const result = parseHubSource(source);
    expect(result.ok ? null : result.error).toMatchObject({
      code: 'invalid_request',
      details: { field: 'source' },
    });
  });
});

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
