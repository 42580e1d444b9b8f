import { expect, test } from 'vitest';
import { quitQuestion } from './quit-question.ts';

test('nobody is asked when nothing is lost', () => {
  expect(quitQuestion({ models: [], engines: 0 })).toBeNull();
});

test('what is served is named, a long list is cut', () => {
  expect(quitQuestion({ models: ['a'], engines: 1 })?.message).toBe('Quit while serving "a"?');
  expect(quitQuestion({ models: ['a', 'b', 'c', 'd', 'e'], engines: 0 })?.message).toBe(
    'Quit while serving "a", "b", "c" and 2 more?',
  );
});

test('a worker with engines asks too', () => {
  expect(quitQuestion({ models: [], engines: 1 })?.message).toMatch(/works for the covey/);
});
