import { expect, test } from 'vitest';
import { describeError } from './failure.ts';

test('a cause that the sentence tells already is not repeated, others are listed', () => {
  const name = { code: 'too_big', field: 'name', message: 'must have 1 to 64 characters' };
  const scope = { code: 'invalid_value', field: 'scope', message: 'is neither of the two' };
  const error = { code: 'invalid_request', message: `name: ${name.message}` } as const;
  expect(describeError({ ...error, reasons: [name] })).toBe('name: must have 1 to 64 characters\n');
  expect(describeError({ ...error, reasons: [name, scope] })).toBe(
    'name: must have 1 to 64 characters\n  - is neither of the two\n',
  );
});
