import { expect, test } from 'vitest';
import type { ArtifactId } from '../lib/ids.ts';
import { canonicalManifest, checkManifest, makeManifest } from './tree-manifest.ts';

const sha256 = 'a'.repeat(64) as ArtifactId;
const file = (path: string) => ({ path, bytes: 1, sha256, executable: false });

test('the order of files and directories does not matter, and parents are entries', () => {
  const one = makeManifest([file('b/c'), file('a')], ['d/e']);
  const two = makeManifest([file('a'), file('b/c')], ['d', 'd/e', 'b']);
  if (!one.ok || !two.ok) throw new Error('refused');
  expect(canonicalManifest(one.manifest)).toBe(canonicalManifest(two.manifest));
  expect(one.manifest.entries.map(({ path }) => path)).toEqual(['a', 'b', 'b/c', 'd', 'd/e']);
  expect(checkManifest(JSON.parse(canonicalManifest(one.manifest)))).toEqual(one);
});

test.each([
  [[file('a'), file('a')], [], /twice/],
  [[file('a'), file('A')], [], /case/],
  [[file('a'), file('a/b')], [], /a file and a directory/],
  [[file('a')], ['a'], /a file and a directory/],
  [[file('../a')], [], /"\.\.\/a".*relative path|"\.\.".*relative path/],
  [[file('a/./b')], [], /relative path/],
  [[file('a\u0000b')], [], /relative path/],
  [[file('con.txt')], [], /relative path/],
] as const)('%j with %j is no tree', (files, directories, problem) => {
  const made = makeManifest([...files], [...directories]);
  expect(made.ok ? '' : made.problem).toMatch(problem);
});

test('a manifest from outside is judged by the same rules', () => {
  const entry = { type: 'file', ...file('b') };
  expect(checkManifest({ version: 1, entries: [entry, { ...entry, path: 'a' }] })).toMatchObject({
    ok: false,
  });
  expect(checkManifest({ version: 1, entries: [{ ...entry, path: 'x/y' }] })).toMatchObject({ ok: false });
  expect(checkManifest({ version: 2, entries: [] })).toMatchObject({ ok: false });
  expect(checkManifest(null)).toMatchObject({ ok: false });
});
