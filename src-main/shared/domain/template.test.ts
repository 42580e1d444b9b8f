import fc from 'fast-check';
import { expect, test } from 'vitest';
import { expandTemplate, parseTemplate } from './template.ts';

const values: Readonly<Record<string, string>> = {
  index: '7',
  'input.a b.bin': '/w/a b.bin',
  output: '{index}',
};
const expand = (text: string): string => expandTemplate(text, (name) => values[name]);

test('variables are replaced once, doubled braces are braces', () => {
  expect(expand('part-{index}.txt')).toBe('part-7.txt');
  expect(expand('{input.a b.bin}{index}')).toBe('/w/a b.bin7');
  expect(expand('{output}')).toBe('{index}');
  expect(expand('{{index}} {{{index}}')).toBe('{index}} {7}');
  expect(expand('')).toBe('');
});

test.each(['{', '{"a": 1}', '{Index}', '{print $1}', 'a {', '{}', '{input.}'])('%s is refused', (text) => {
  const parsed = parseTemplate(text);
  expect(parsed.ok).toBe(false);
  expect(() => expand(text)).toThrow(RangeError);
});

test('an unknown variable is refused', () => {
  expect(() => expand('{rank}')).toThrow('{rank}');
});

test('text whose braces are doubled comes back as it was', () => {
  fc.assert(fc.property(fc.string(), (text) => expand(text.replaceAll('{', '{{')) === text));
});
