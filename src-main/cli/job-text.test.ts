import { expect, test } from 'vitest';
import { exampleJob } from '../../e2e/support/job-views.ts';
import { partitionsText } from './job-text.ts';

test('partitions of a job that has ended are done, failed or cancelled', () => {
  const partitions = { total: 8, waiting: 0, running: 0, done: 1, failed: 1, cancelled: 6 };
  const job = exampleJob({ status: 'cancelled', partitions });
  expect(partitionsText(job)).toBe('1 of 8 done, 1 failed, 6 cancelled');
});
