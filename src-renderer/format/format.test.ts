import { expect, it } from 'vitest';
import {
  formatAgo,
  formatBytes,
  formatBytesOf,
  formatDuration,
  formatMs,
  formatPercent,
  formatShort,
  formatTokenRate,
  plural,
  shortened,
} from './format.ts';
import { plainText } from './plain-text.ts';

const GiB = 2 ** 30;

it.each([
  [0, '0 B'],
  [999, '999 B'],
  [1_000, '1.0 KiB'],
  [1_536, '1.5 KiB'],
  [1_023.7 * 1_024, '1.0 MiB'],
  [10 * GiB, '10 GiB'],
  [1_500 * GiB, '1.5 TiB'],
  [-5, '0 B'],
])('%d bytes are %s', (bytes, text) => expect(formatBytes(bytes)).toBe(text));

it('writes a part in the unit of the whole', () => {
  expect(formatBytesOf(3.21 * GiB, 16 * GiB)).toBe('3.2 of 16 GiB');
  expect(formatBytesOf(0, 16 * GiB)).toBe('0 of 16 GiB');
});

it.each([
  [400, '0 s'],
  [45_000, '45 s'],
  [60_000, '1 min'],
  [3_600_000, '1 h'],
  [7_500_000, '2 h 5 min'],
  [273_600_000, '3 d 4 h'],
])('%d ms last %s', (ms, text) => expect(formatDuration(ms)).toBe(text));

it('tells what was and what will be', () => {
  expect(formatAgo(1_000, 2_000)).toBe('just now');
  expect(formatAgo(1_000, 61_000)).toBe('1 min ago');
  expect(formatAgo(61_000, 1_000)).toBe('in 1 min');
});

it('shows something where there is something', () => {
  expect([0, 0.2, 37.4, 100].map(formatPercent)).toEqual(['0 %', '<1 %', '37 %', '100 %']);
  expect([0, 8.44, 1_234].map(formatTokenRate)).toEqual(['0', '8.4', '1,234']);
  expect([0.42, 12.2, 1_240].map(formatMs)).toEqual(['0.4 ms', '12 ms', '1.2 s']);
  expect([260_000, 7_240_000_000].map(formatShort)).toEqual(['260k', '7.2B']);
  expect([plural(1, 'machine'), plural(2, 'machine')]).toEqual(['1 machine', '2 machines']);
});

it('shows what would steer the screen as something that does not', () => {
  expect(plainText('a\u001b[31mb\u202ec\u200bd\ne')).toBe('a�[31mb�c�d�e');
  expect(plainText('a\n\tb\r', true)).toBe('a\n\tb�');
  expect(plainText('größe 🐦 <b>')).toBe('größe 🐦 <b>');
});

it('keeps beginning and end of what is too long', () => {
  expect(shortened('/models/a.gguf')).toBe('/models/a.gguf');
  const short = shortened(`/home/${'x'.repeat(4_000)}/model.gguf`);
  expect(short).toHaveLength(100);
  expect(short).toMatch(/^\/home\/x+ … x+\/model\.gguf$/);
});
