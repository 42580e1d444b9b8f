import { describe, expect, it } from 'vitest';
import { parseHubSource } from './hub-source.ts';

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
