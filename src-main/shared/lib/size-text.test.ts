import { expect, test } from 'vitest';
import { exactSizeText, sizeText } from './size-text.ts';

test.each([
  [0, '0 MiB'],
  [1, '1 MiB'],
  [600 * 1024 ** 2, '600 MiB'],
  [1024 ** 3 - 1, '1024 MiB'],
  [1.5 * 1024 ** 3, '1.5 GiB'],
])('%i bytes in a sentence are %s', (bytes, text) => expect(sizeText(bytes)).toBe(text));

test.each([
  [0, '0 B'],
  [1000, '1000 B'],
  [64 * 1024, '64 KiB'],
  [300 * 1024 ** 2, '300 MiB'],
  [1000 * 1024 ** 2, '1000 MiB'],
  [1.5 * 1024 ** 3, '1.5 GiB'],
  [4 * 1024 ** 2 + 1, '4194305 B'],
  [2 * 1024 ** 4, '2 TiB'],
])('a chosen size of %i bytes is %s', (bytes, text) => expect(exactSizeText(bytes)).toBe(text));
