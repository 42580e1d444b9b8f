import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Access } from '#shared/api/access.ts';
import { CoveyError } from '#shared/errors.ts';
import { newToken } from '../../nodejs/access/tokens.ts';
import type { CallerVia, Principal } from '../../nodejs/http/http-call.ts';
import type { AccessControl } from './access.ts';
import { scriptedAccess, type ScriptedAccess } from './fixtures.ts';

const hourMs = 3_600_000;
let scripted: ScriptedAccess;
let access: AccessControl;
beforeEach(() => {
  scripted = scriptedAccess();
  access = scripted.access;
});
afterEach(() => scripted.close());

function call(
  needs: Access,
  token?: string,
  via: CallerVia = 'loopback',
  remoteAddress = '10.0.0.7',
): Principal {
  const authorization = token === undefined ? undefined : `Bearer ${token}`;
  return access.authenticate({ needs, via, authorization, requireKey: false, remoteAddress });
}

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    return (error as CoveyError).code;
  }
  return 'let in';
}

const login = (via: CallerVia = 'loopback'): string =>
  access.redeem(access.loginCode().code, { via, remoteAddress: '10.0.0.7' }).token;

describe('who may call what', () => {
  it('is as the table says', () => {
    const tokens = {
      none: undefined,
      local: scripted.local.token,
      session: login(),
      admin: access.createKey('admin', 'admin').key,
      inference: access.createKey('apps', 'inference').key,
      foreign: 'sk-of-another-service',
      forged: newToken('key'),
    };
    const levels = ['public', 'inference', 'local', 'admin'] as const;
    const table = (via: CallerVia) =>
      Object.entries(tokens).map(
        ([name, token]) =>
          `${name}: ${levels.map((level) => refusal(() => call(level, token, via))).join(', ')}`,
      );
    expect(table('loopback')).toEqual([
      'none: let in, let in, token_missing, token_missing',
      'local: let in, let in, let in, let in',
      'session: let in, let in, let in, let in',
      'admin: let in, let in, let in, let in',
      'inference: let in, let in, admin_required, admin_required',
      'foreign: let in, let in, token_invalid, token_invalid',
      'forged: let in, let in, token_invalid, token_invalid',
    ]);
    expect(table('member')).toEqual([
      'none: let in, let in, token_missing, token_missing',
      // It never leaves its machine.
      'local: let in, let in, token_invalid, token_invalid',
      'session: let in, let in, let in, let in',
      'admin: let in, let in, let in, let in',
      'inference: let in, let in, admin_required, admin_required',
      'foreign: let in, let in, token_invalid, token_invalid',
      'forged: let in, let in, token_invalid, token_invalid',
    ]);
    expect(table('lan')).toEqual([
      'none: let in, key_missing, token_missing, token_missing',
      'local: let in, key_invalid, token_invalid, token_invalid',
      'session: let in, let in, let in, let in',
      'admin: let in, let in, let in, let in',
      'inference: let in, let in, admin_required, admin_required',
      'foreign: let in, key_invalid, token_invalid, token_invalid',
      'forged: let in, key_invalid, token_invalid, token_invalid',
    ]);
  });

  it('with api.requireKey, a key is needed on this machine and for members too', () => {
    scripted.settings = { ...scripted.settings, api: { requireKey: true, allowedHosts: [] } };
    const { key } = access.createKey('apps', 'inference');
    for (const via of ['loopback', 'member'] as const) {
      expect(refusal(() => call('inference', undefined, via))).toBe('key_missing');
      expect(refusal(() => call('inference', 'sk-x', via))).toBe('key_invalid');
      expect(call('inference', key, via)).toMatchObject({ kind: 'key', access: 'inference' });
    }
    expect(call('inference', scripted.local.token).kind).toBe('local');
  });

  it('a member may ask for a key on behalf of its owner', () => {
    const asked = { needs: 'inference', via: 'member', authorization: undefined, remoteAddress: '' } as const;
    expect(access.authenticate({ ...asked, requireKey: false }).kind).toBe('member');
    expect(refusal(() => access.authenticate({ ...asked, requireKey: true }))).toBe('key_missing');
  });
});

describe('keys', () => {
  it('are shown once, kept as hashes, and survive a restart', () => {
    const { key, ...view } = access.createKey('apps', 'inference');
    expect(access.keys()).toEqual([view]);
    expect(JSON.stringify(access.keys())).not.toContain(key.slice(12));
    access = scripted.restart();
    expect(access.keys()).toEqual([view]);
    expect(call('inference', key, 'lan').kind).toBe('key');
  });

  it('say when they were last used, to the minute', () => {
    const { key, id } = access.createKey('apps', 'inference');
    scripted.now += 90_500;
    call('inference', key, 'lan');
    expect(access.keys()[0]).toMatchObject({ id, lastUsedAt: Math.floor(scripted.now / 60_000) * 60_000 });
    expect(scripted.restart().keys()[0]?.lastUsedAt).toBe(access.keys()[0]?.lastUsedAt);
  });

  it('are revoked at once, and what is open for them ends', () => {
    const { key, id } = access.createKey('apps', 'admin');
    const { revoked } = call('admin', key, 'lan');
    access.revokeKey(id);
    expect(revoked?.aborted).toBe(true);
    expect(refusal(() => call('admin', key, 'lan'))).toBe('token_invalid');
    expect(refusal(() => access.revokeKey(id))).toBe('key_not_found');
    expect(scripted.restart().keys()).toEqual([]);
  });

  it('have names of their own and a bound', () => {
    for (let count = 0; count < 256; count++) access.createKey(`key ${count}`, 'inference');
    expect(refusal(() => access.createKey('more', 'inference'))).toBe('too_many_requests');
    access.revokeKey(access.keys()[0]?.id ?? '');
    expect(refusal(() => access.createKey('key 7', 'inference'))).toBe('invalid_request');
  });

  it('leave a trace in the events, without themselves', () => {
    let changes = 0;
    access.onKeys(() => changes++);
    const { key, id } = access.createKey('apps', 'inference');
    call('inference', key, 'lan', '10.0.0.7');
    call('inference', key, 'lan', '10.0.0.7');
    call('inference', key, 'lan', '10.0.0.8');
    call('inference', key, 'loopback');
    access.revokeKey(id);
    expect(scripted.notes).toEqual([
      'audit-key-created: The API key apps was made, for inference.',
      'audit-key-first-used: The API key apps is in use from 10.0.0.7.',
      'audit-key-first-used: The API key apps is in use from 10.0.0.8.',
      'audit-key-first-used: The API key apps is in use on this machine.',
      'audit-key-revoked: The API key apps was revoked.',
    ]);
    expect(scripted.notes.join()).not.toContain(key);
    expect(changes).toBe(2);
  });
});

describe('logins', () => {
  const here = { via: 'loopback', remoteAddress: '127.0.0.1' } as const;

  it('come from a code that works once and for a minute', () => {
    const { code, expiresAt } = access.loginCode();
    expect(code).toMatch(/^([0-9A-Z]{4}-){3}[0-9A-Z]{4}$/);
    expect(expiresAt).toBe(scripted.now + 60_000);
    const session = access.redeem(` ${code.toLowerCase().replaceAll('-', ' ')}`, here);
    expect(session).toMatchObject({ role: 'admin', expiresAt: scripted.now + 12 * hourMs });
    expect(call('admin', session.token).kind).toBe('session');
    expect(refusal(() => access.redeem(code, here))).toBe('login_code_invalid');
    const late = access.loginCode();
    scripted.now += 60_000;
    expect(refusal(() => access.redeem(late.code, here))).toBe('login_code_invalid');
  });

  it('come from a code that a person carries to another machine, good for five minutes', () => {
    const why = (code: string): string => {
      try {
        access.redeem(code, { via: 'member', remoteAddress: '' });
      } catch (error) {
        return (error as CoveyError).message;
      }
      return 'let in';
    };
    const [one, other] = [access.signInCode(), access.signInCode()];
    expect(one.expiresAt).toBe(scripted.now + 300_000);
    scripted.now += 299_999;
    expect(why(one.code)).toBe('let in');
    expect(why(one.code)).toMatch(/^This code was used already/);
    scripted.now += 1;
    expect(why(other.code)).toMatch(/^This code has expired/);
    expect(why('AAAA-BBBB-CCCC-DDDD')).toMatch(/^There is no such code/);
    // What was right once says so for a while, and then is as good as any other.
    scripted.now += hourMs;
    expect(why(one.code)).toMatch(/^There is no such code/);
  });

  it('last 12 hours, over a restart too, and end by themselves', () => {
    const token = login();
    access = scripted.restart();
    const { revoked } = call('admin', token);
    scripted.now += 12 * hourMs - 1;
    expect(call('admin', token).kind).toBe('session');
    scripted.now += 1;
    expect(refusal(() => call('admin', token))).toBe('token_invalid');
    expect(
      refusal(() =>
        scripted.restart().authenticate({
          needs: 'admin',
          via: 'loopback',
          authorization: `Bearer ${token}`,
          requireKey: false,
          remoteAddress: '',
        }),
      ),
    ).toBe('token_invalid');
    expect(revoked?.aborted).toBe(false);
  });

  it('end by logout, and only they do', () => {
    const [one, other] = [login(), login()];
    const principal = call('admin', one);
    access.logout(principal);
    expect(principal.revoked?.aborted).toBe(true);
    expect(refusal(() => call('admin', one))).toBe('token_invalid');
    expect(call('admin', other).kind).toBe('session');
    expect(refusal(() => access.logout(call('admin', scripted.local.token)))).toBe('invalid_request');
  });

  it('are bounded: the oldest ends', () => {
    const first = login();
    const rest = Array.from({ length: 256 }, () => login());
    expect(refusal(() => call('admin', first))).toBe('token_invalid');
    expect(rest.every((token) => call('admin', token).kind === 'session')).toBe(true);
    const codes = Array.from({ length: 17 }, () => access.loginCode().code);
    expect(refusal(() => access.redeem(codes[0] ?? '', here))).toBe('login_code_invalid');
  });
});

describe('guessing', () => {
  it('from the LAN locks out its own address for a minute, whatever it shows then', () => {
    const { key } = access.createKey('apps', 'inference');
    const codes = Array.from({ length: 12 }, () =>
      refusal(() => call('inference', newToken('key'), 'lan', '10.0.0.66')),
    );
    expect(codes.slice(0, 9)).toEqual(Array(9).fill('key_invalid'));
    expect(codes.slice(9)).toEqual(Array(3).fill('too_many_requests'));
    expect(refusal(() => call('inference', key, 'lan', '10.0.0.66'))).toBe('too_many_requests');
    expect(refusal(() => access.redeem('x', { via: 'lan', remoteAddress: '10.0.0.66' }))).toBe(
      'too_many_requests',
    );
    expect(call('inference', key, 'lan', '10.0.0.7').kind).toBe('key');
    scripted.now += 60_000;
    expect(call('inference', key, 'lan', '10.0.0.66').kind).toBe('key');
  });

  it('from one IPv6 network counts as from one address', () => {
    for (let host = 1; host <= 10; host++) {
      refusal(() => call('inference', newToken('key'), 'lan', `2001:db8::${host}`));
    }
    const { key } = access.createKey('apps', 'inference');
    expect(refusal(() => call('inference', key, 'lan', '2001:db8::ff'))).toBe('too_many_requests');
    expect(call('inference', key, 'lan', '2001:db8:0:1::1').kind).toBe('key');
  });

  it('on this machine is quietened, and does not lock the owner out', () => {
    const codes = Array.from({ length: 1_000 }, () => refusal(() => call('admin', newToken('local'))));
    expect(codes[0]).toBe('token_invalid');
    expect(codes.at(-1)).toBe('too_many_requests');
    expect(call('admin', scripted.local.token).kind).toBe('local');
    expect(refusal(() => access.redeem('x', { via: 'loopback', remoteAddress: '127.0.0.1' }))).toBe(
      'too_many_requests',
    );
    expect(login()).toBeTruthy();
    expect(scripted.notes.filter((note) => note.startsWith('security'))).toEqual([
      'security-token-refused: A wrong token was shown on this machine.',
      'security-token-refused: Many wrong tokens or codes were shown on this machine: more of them are not listed.',
    ]);
  });

  it('refused pages are noted once a minute each', () => {
    const error = new CoveyError('origin_not_allowed', 'Pages of "https://evil.example" may not call this.');
    for (let count = 0; count < 50; count++) access.noteRefused(error, '127.0.0.1');
    expect(scripted.notes).toEqual([
      'security-refused: A request was refused: Pages of "https://evil.example" may not call this.',
    ]);
  });
});
