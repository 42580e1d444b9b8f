import { expect, test } from 'vitest';
import fc from 'fast-check';
import { isSafeTreePath } from './artifact.ts';
import { resultPaths, safeName } from './result-paths.ts';

test('names that every system takes stay as they are', () => {
  expect(resultPaths(['0/frame.png', '1/frame.png', 'tidy.out'])).toEqual([
    '0/frame.png',
    '1/frame.png',
    'tidy.out',
  ]);
});

test('what a system reads otherwise is replaced', () => {
  const names = ['..', '.', '', 'a/../b', '/etc/passwd', 'C:\\x', 'con', 'nul.txt', 'a. ', 'a\u0007b\u202e'];
  expect(resultPaths(names)).toEqual([
    '__',
    '_',
    '_ (2)',
    'a/__/b',
    '__etc_passwd',
    'C__x',
    '_con',
    '_nul.txt',
    'a__',
    'a_b_',
  ]);
  expect(Buffer.byteLength(safeName('é'.repeat(500)))).toBeLessThanOrEqual(200);
});

test('two that would be the same get numbers, also without regard to case, and folders and files keep apart', () => {
  expect(resultPaths(['a.png', 'A.png', 'a.png'])).toEqual(['a.png', 'A (2).png', 'a (3).png']);
  expect(resultPaths(['a', 'a/b'])).toEqual(['a', 'a_b']);
  expect(resultPaths(['a/b', 'a'])).toEqual(['a/b', 'a (2)']);
});

test('whatever they are called, they are safe, below the folder, and each another one', () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc.stringMatching(/^[aA.\/:_ ()2]{0,8}$/),
  );
  fc.assert(
    fc.property(fc.array(name, { maxLength: 12 }), (names) => {
      const paths = resultPaths(names);
      expect(paths).toHaveLength(names.length);
      const keys = paths.map((path) => path.normalize('NFC').toLowerCase());
      expect(new Set(keys).size).toBe(keys.length);
      for (const [index, path] of paths.entries()) {
        expect(isSafeTreePath(path)).toBe(true);
        for (const other of keys) expect((keys[index] ?? '').startsWith(`${other}/`)).toBe(false);
      }
      expect(resultPaths(names)).toEqual(paths);
    }),
  );
});
