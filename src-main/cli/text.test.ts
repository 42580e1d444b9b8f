import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { editDistance, suggest } from './suggest.ts';
import { renderTable } from './table.ts';
import { bytes, displayWidth, duration, pad, printable, truncate, wrap } from './text.ts';

describe('figures', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.0 KiB'],
    [1024 ** 2, '1.0 MiB'],
    [1.5 * 1024 ** 3, '1.5 GiB'],
    [100 * 1024 ** 3, '100 GiB'],
    [1023.9 * 1024 ** 2, '1.0 GiB'],
  ])('%d bytes are %s', (value, text) => expect(bytes(value)).toBe(text));

  it.each([
    [0.42, '0.4 ms'],
    [450, '450 ms'],
    [1_200, '1.2 s'],
    [9_960, '10 s'],
    [61_000, '61 s'],
    [180_000, '3 min'],
    [7_500_000, '2 h 5 min'],
    [4 * 86_400_000, '4 d'],
  ])('%d ms are %s', (value, text) => expect(duration(value)).toBe(text));
});

describe('text', () => {
  it('escapes what a terminal would obey', () => {
    expect(printable('a\u001b[2Jb\u0007\u009b\u202ec\nd')).toBe('a\\x1b[2Jb\\x07\\x9b\\u202ec\\nd');
    expect(printable('Zoë 机 😀')).toBe('Zoë 机 😀');
  });

  it('counts columns', () => {
    expect(displayWidth('Zoe\u0308')).toBe(3);
    expect(displayWidth('机器')).toBe(4);
    expect(truncate('机器机器', 5)).toBe('机器…');
    expect(pad('机', 4, 'right')).toBe('  机');
  });

  it('wraps between words', () => {
    expect(wrap('one two three', 7)).toEqual(['one two', 'three']);
    expect(wrap('immeasurable', 5)).toEqual(['immeasurable']);
  });

  it('tables never pass their width while something may shrink', () => {
    const columns = [
      { header: 'A', value: (row: string[]) => row[0] ?? '', shrinkTo: 1 },
      { header: 'B', value: (row: string[]) => row[1] ?? '', shrinkTo: 1, align: 'right' as const },
    ];
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string(), fc.string())),
        fc.integer({ min: 10, max: 80 }),
        (rows, width) => {
          for (const line of renderTable(columns, rows, width).split('\n')) {
            expect(displayWidth(line)).toBeLessThanOrEqual(width);
          }
        },
      ),
    );
  });
});

describe('suggestions', () => {
  it('counts changes', () => {
    expect(editDistance('dekc', 'desk')).toBe(2);
    expect(editDistance('lits', 'list')).toBe(1);
    expect(editDistance('', 'abc')).toBe(3);
  });

  it('offers what is near and nothing else', () => {
    expect(suggest('attik', ['desk', 'attic'])).toBe('attic');
    expect(suggest('garage', ['desk', 'attic'])).toBeNull();
  });
});
