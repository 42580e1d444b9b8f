import { beforeEach, expect, it } from 'vitest';
import type { CoveyError } from '#shared/errors.ts';
import { createMachineLogins, type MachineLogins } from './machine-logins.ts';
import { newToken } from './tokens.ts';

const here = { via: 'loopback', remoteAddress: '127.0.0.1' } as const;
let now: number;
let logins: MachineLogins;
beforeEach(() => {
  now = Date.UTC(2026, 10, 30);
  logins = createMachineLogins(() => now);
});

function refusal(code: string): string {
  try {
    logins.redeem(code, here);
  } catch (error) {
    const { code: what, message } = error as CoveyError;
    return `${what}: ${message.split('.')[0]}`;
  }
  return 'let in';
}

it('a code is good once and for a minute, for a login of twelve hours', () => {
  const { code, expiresAt } = logins.code();
  expect(expiresAt).toBe(now + 60_000);
  const { token, role } = logins.redeem(code.toLowerCase().replaceAll('-', ' '), here);
  expect([role, token.slice(0, 14)]).toEqual(['machine', 'covey_machine_']);
  expect([logins.verify(token), logins.verify(newToken('machine')), logins.verify('')]).toEqual([
    true,
    false,
    false,
  ]);
  expect(refusal(code)).toBe('login_code_invalid: This code was used already: each works once');
  const late = logins.code();
  now += 60_000;
  expect(refusal(late.code)).toBe('login_code_invalid: This code has expired');
  expect(refusal('AAAA-BBBB-CCCC-DDDD')).toBe('login_code_invalid: There is no such code');
  now += 12 * 3_600_000;
  expect(logins.verify(token)).toBe(false);
});

it('guesses are slowed down, and the right code still gets in', () => {
  for (let count = 0; count < 9; count++) expect(refusal('AAAA')).toMatch(/^login_code_invalid/);
  expect(refusal('AAAA')).toMatch(/^too_many_requests/);
  expect(refusal(logins.code().code)).toBe('let in');
  now += 60_000;
  expect(refusal('AAAA')).toMatch(/^login_code_invalid/);
});

it('are bounded: the oldest end', () => {
  const tokens = Array.from({ length: 33 }, () => logins.redeem(logins.code().code, here).token);
  expect(tokens.map((token) => logins.verify(token))).toEqual([
    false,
    ...Array.from({ length: 32 }, () => true),
  ]);
});
