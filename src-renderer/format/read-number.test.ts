import { expect, it } from 'vitest';
import { numberProblem, readNumber } from './read-number.ts';

it.each([
  ['', null],
  ['  ', null],
  ['16', 16],
  [' 1.5 ', 1.5],
  ['-3', -3],
  ['5 GiB', 5],
  ['5gib', 5],
  ['1e5', NaN],
  ['9e99', NaN],
  ['5000000 TB', NaN],
  ['1,000', NaN],
  ['abc', NaN],
  ['GiB', NaN],
  ['--1', NaN],
  ['Infinity', NaN],
])('%j is read as %s', (text, value) => expect(readNumber(text, ' GiB')).toBe(value));

it('says what is wrong', () => {
  const range = { min: 16, max: 4_096, whole: true };
  expect(numberProblem(null, range)).toBeNull();
  expect(numberProblem(512, range)).toBeNull();
  expect(numberProblem(0, range)).toBe('From 16 to 4,096.');
  expect(numberProblem(1e21, range)).toBe('From 16 to 4,096.');
  expect(numberProblem(16.5, range)).toBe('A whole number.');
  expect(numberProblem(NaN, range)).toBe('Digits only, such as 16.');
});
