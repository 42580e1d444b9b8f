import { expect, test } from 'vitest';
import { partitionsText } from './job-words.ts';

test('partitions of a job that has ended are done, failed or cancelled', () => {
  const partitions = { total: 1_008, waiting: 0, running: 0, done: 1, failed: 1, cancelled: 1_006 };
  expect(partitionsText({ partitions })).toBe('1 of 1,008 done, 1 failed, 1,006 cancelled');
});
