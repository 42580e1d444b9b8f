import { expect, it } from 'vitest';
import { joinWords, splitWords } from './shell-words.ts';

it.each<[string, readonly string[]]>([
  ['', []],
  ['  ./tool  {input}\t-x ', ['./tool', '{input}', '-x']],
  [`sh -c 'echo "a b"'`, ['sh', '-c', 'echo "a b"']],
  ['"a \\"b\\" \\n"', ['a "b" \\n']],
  [`a'b c'd`, ['ab cd']],
  [`'' x`, ['', 'x']],
  ['a\\ b', ['a b']],
])('%j is %j', (text, words) => {
  expect(splitWords(text)).toEqual({ ok: true, words });
  expect(splitWords(joinWords(words))).toEqual({ ok: true, words });
});

it('keeps every word as it is, whatever is in it', () => {
  const words = [`it's`, '$(rm)', '`x`', 'a\nb', '*', '~', '{index}', 'plain-1.0_x', '"', '\\'];
  expect(splitWords(joinWords(words))).toEqual({ ok: true, words });
});

it.each(['"open', "it's", 'end\\'])('refuses %j', (text) => {
  expect(splitWords(text).ok).toBe(false);
});
