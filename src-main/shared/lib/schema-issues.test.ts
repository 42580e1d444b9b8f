import { expect, test } from 'vitest';
import { z } from 'zod';
import { wordedIssues } from './schema-issues.ts';

const schema = z.strictObject({
  count: z.number().int().min(1).max(1_000).optional(),
  ramBytes: z.number().int().min(0).optional(),
  at: z.number().int().optional(),
  limit: z.coerce.number().int().gt(0).lt(10).optional(),
  name: z.string().max(3).optional(),
  port: z.number('must be a port').max(9, 'must be a port').optional(),
});
const said = (value: unknown): string[] =>
  wordedIssues(schema.safeParse(value).error?.issues ?? []).map(
    ({ issue, message }) => `${issue.path.join('.')} ${message}`,
  );

test('a number that does not fit has one sentence with the limit', () => {
  expect(said({ count: 1e300 })).toEqual(['count must be at most 1000']);
  expect(said({ count: 1_001 })).toEqual(['count must be at most 1000']);
  expect(said({ count: -1e300 })).toEqual(['count must be at least 1']);
  expect(said({ ramBytes: 1e20 })).toEqual(['ramBytes must be less than 8 PiB']);
  expect(said({ at: 1e20 })).toEqual(['at must be at most 9007199254740991']);
  expect(said({ limit: 'ten' })).toEqual(['limit must be a number']);
  expect(said({ limit: '1.5' })).toEqual(['limit must be a whole number']);
  expect(said({ limit: '10' })).toEqual(['limit must be less than 10']);
  expect(said({ limit: '0' })).toEqual(['limit must be more than 0']);
});

test('everything else is said as it was', () => {
  expect(said({ port: 10 })).toEqual(['port must be a port']);
  expect(said({ name: 'abcd' })).toEqual(['name Too big: expected string to have <=3 characters']);
  expect(said({ count: 'x' })).toEqual(['count Invalid input: expected number, received string']);
});
