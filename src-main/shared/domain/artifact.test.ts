import { expect, test } from 'vitest';
import { isSafeTreePath, treePathProblem } from './artifact.ts';

test.each([
  ['a/b.txt', null],
  ['über/日本.txt', null],
  ['console.log', null],
  ['a:b', 'has a : in its name, which Windows cannot have'],
  ['a/what?', 'has a ? in its name, which Windows cannot have'],
  ['a\\b', 'has a \\ in its name, which Windows cannot have'],
  ['CON', 'has a name that is a device on Windows'],
  ['logs/aux.txt', 'has a name that is a device on Windows'],
  ['a. ', 'has a name that ends with a dot or a blank, which Windows cannot have'],
  ['../a', 'leads out of the folder, or to the folder itself'],
  ['a//b', 'leads out of the folder, or to the folder itself'],
  ['a\u0007', 'has a control character in its name'],
  ['x'.repeat(256), 'has a name of more than 255 characters'],
])('%j in a tree: %s', (path, problem) => {
  expect(treePathProblem(path)).toBe(problem);
  expect(isSafeTreePath(path)).toBe(problem === null);
});
