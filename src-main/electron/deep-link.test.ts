import { expect, test } from 'vitest';
import { encodeJoinString } from '../nodejs/join-string.ts';
import type { JoinStringContent } from '#shared/protocol/join.ts';
import { joinQuestion, readLink } from './deep-link.ts';

const content = {
  controllerId: 'ab12'.repeat(16),
  addresses: [{ host: '192.168.1.5', port: 7879 }],
  secret: '0'.repeat(64),
  expiresAt: 5_000,
} as unknown as JoinStringContent;

test('a link is a join string behind covey://join/', () => {
  const joinString = encodeJoinString(content);
  const read = readLink(`covey://join/${encodeURIComponent(joinString)}`);
  expect(read).toMatchObject({ ok: true, value: { joinString, content } });
});

test.each([
  ['another action', 'covey://leave/now', /covey:\/\/join/],
  ['more than a join string', `covey://join/${'x'}/y`, /covey:\/\/join/],
  ['a query', 'covey://join/covey1.abc?then=that', /covey:\/\/join/],
  ['a damaged escape', 'covey://join/%E0%A4%A', /damaged/],
  ['no join string', 'covey://join/hello', /does not begin/],
  ['a flood', `covey://join/${'a'.repeat(10_000)}`, /too long/],
])('%s is refused in a sentence', (_what, link, sentence) => {
  const read = readLink(link);
  expect(read.ok ? '' : read.error.message).toMatch(sentence);
});

test('the question names the controller, its address and its fingerprint', () => {
  const question = joinQuestion(content, 'office', 1_000);
  expect(question.message).toBe('Lend this computer to the controller "office"?');
  expect(question.detail).toContain('192.168.1.5:7879');
  expect(question.detail).toContain('ab12 ab12 ab12 ab12 ab12 ab12 ab12 ab12');
  expect(question.detail).not.toContain('expired');
  expect(question.detail).not.toContain(content.secret.slice(0, 16));
});

test('a controller that is not heard has no name, and an old invitation says so', () => {
  const question = joinQuestion(content, null, 6_000);
  expect(question.message).toContain('not heard on this network');
  expect(question.detail).toContain('has expired');
});
