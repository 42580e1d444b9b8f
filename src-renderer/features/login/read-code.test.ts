import { expect, it } from 'vitest';
import { readCode } from './read-code.ts';

it.each([
  'ABCD-EFGH-1234-5678',
  ' abcd efgh 1234 5678 ',
  'abcdefgh12345678',
  'http://localhost:7878/#code=ABCD-EFGH-1234-5678',
  'Link: http://127.0.0.1:7878/#code=ABCD-EFGH-1234-5678\n',
])('finds the code in %j', (text) => expect(readCode(text)).toBe('ABCD-EFGH-1234-5678'));

it.each(['', 'ABCD-EFGH', 'ABCD-EFGH-1234-567', 'ABCD-EFGH-1234-5678-9', 'ABCD-EFGH-1234-56!8', 'http://x/'])(
  'finds none in %j',
  (text) => expect(readCode(text)).toBeNull(),
);
