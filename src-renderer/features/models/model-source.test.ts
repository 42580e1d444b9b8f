import { expect, it } from 'vitest';
import { hubSource, sourceProblem } from './model-source.ts';

it('takes a name of the hub and the address of its page', () => {
  expect(
    [
      ' hf:owner/repo/file.gguf ',
      'owner/repo/file.gguf',
      'https://huggingface.co/owner/repo/blob/main/file.gguf',
      'https://huggingface.co/owner/repo/resolve/main/file.gguf?download=true',
    ].map(hubSource),
  ).toEqual(Array(4).fill('hf:owner/repo/file.gguf'));
  expect(
    ['https://huggingface.co/owner/repo/tree/main', 'https://huggingface.co/owner/repo/'].map(hubSource),
  ).toEqual(Array(2).fill('hf:owner/repo'));
  expect(sourceProblem('owner/repo/file.gguf')).toBeNull();
});

it('says what can never be downloaded', () => {
  expect(sourceProblem('x')).toMatch(/names no repository/);
  expect(sourceProblem('https://x.y/z.gguf')).toMatch(/Only models of the hub/);
  expect(sourceProblem('hf:../../etc/passwd.gguf')).toMatch(/names no repository/);
  expect(sourceProblem('hf:owner/repo/model.bin')).toMatch(/not a \.gguf/);
});
