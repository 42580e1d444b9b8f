import { expect, it } from 'vitest';
import { windowRows } from './row-window.ts';

it('has as many rows as there are, those that are known in their places', () => {
  const pages = [
    { from: 2, rows: ['c', 'd'] },
    { from: 4, rows: ['e', 'gone since'] },
  ];
  expect(windowRows(5, pages)).toEqual([0, 1, 'c', 'd', 'e']);
  expect(windowRows(0, pages)).toEqual([]);
});
