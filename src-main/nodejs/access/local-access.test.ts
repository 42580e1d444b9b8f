import { chmod, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAttempts } from './attempts.ts';
import { ensureLocalAccess, readApiAccess } from './local-access.ts';
import { bearerToken, hashToken, newToken, sameHash, tokenKind } from './tokens.ts';

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-access-'));
  file = join(directory, 'api-access.json');
});
afterEach(() => rm(directory, { recursive: true }));

describe("this machine's own token", () => {
  it('stays the same, and tells where the API is', async () => {
    const access = await ensureLocalAccess(directory, 'controller');
    expect(tokenKind(access.token)).toBe('local');
    expect(readApiAccess(directory)).toEqual({ token: access.token, apiAddress: null, role: 'controller' });
    await access.publish('http://127.0.0.1:7878');
    expect(readApiAccess(directory)?.apiAddress).toBe('http://127.0.0.1:7878');
    const again = await ensureLocalAccess(directory, 'worker');
    expect(again.token).toBe(access.token);
    expect(readApiAccess(directory)).toMatchObject({ apiAddress: null, role: 'worker' });
    expect(await readdir(directory)).toEqual(['api-access.json']);
  });

  it('is no other', async () => {
    const access = await ensureLocalAccess(directory, 'controller');
    expect(access.verify(access.token)).toBe(true);
    for (const wrong of ['', 'x', newToken('local'), access.token.slice(0, -1), `${access.token} `]) {
      expect(access.verify(wrong)).toBe(false);
    }
  });

  it.skipIf(process.platform === 'win32')('that others could read is replaced', async () => {
    const access = await ensureLocalAccess(directory, 'controller');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await chmod(file, 0o640);
    expect((await ensureLocalAccess(directory, 'controller')).token).not.toBe(access.token);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it.each(['', '{', '[]', '{"token":"x","apiAddress":null,"role":"worker"}', '{"token":"covey_local_"}'])(
    'is made anew when the file says %j',
    async (text) => {
      await writeFile(file, text, { mode: 0o600 });
      expect(readApiAccess(directory)).toBeNull();
      const { token } = await ensureLocalAccess(directory, 'worker');
      expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ token });
    },
  );

  it('is sent to loopback alone: an address from elsewhere is not believed', async () => {
    const { token } = await ensureLocalAccess(directory, 'worker');
    await writeFile(file, JSON.stringify({ token, apiAddress: 'http://evil.example:80', role: 'worker' }));
    expect(readApiAccess(directory)).toBeNull();
  });
});

it('tokens say what they are, and compare as hashes', () => {
  for (const kind of ['local', 'session', 'key'] as const) {
    const token = newToken(kind);
    expect(tokenKind(token)).toBe(kind);
    expect(sameHash(hashToken(token), hashToken(token))).toBe(true);
    expect(sameHash(hashToken(token), hashToken(newToken(kind)))).toBe(false);
  }
  for (const other of ['', 'sk-1234', 'covey_key_short', `${newToken('key')}x`])
    expect(tokenKind(other)).toBeNull();
});

it.each([
  ['Bearer abc', 'abc'],
  ['bearer  abc', 'abc'],
  ['Basic abc', null],
  ['Bearer', null],
  ['Bearer a b', null],
  [`Bearer ${'x'.repeat(600)}`, null],
  ['Bearer ä', null],
  [undefined, null],
])('%j carries %j', (header, token) => expect(bearerToken(header)).toBe(token));

describe('wrong ones', () => {
  it('are counted by origin; too many have to wait, and others do not', () => {
    let now = 0;
    const attempts = createAttempts(() => now);
    const outcomes = Array.from({ length: 11 }, () => attempts.fail('a'));
    expect(outcomes).toEqual(['first', ...Array<string>(8).fill('counted'), 'locked-out', 'counted']);
    expect(() => attempts.check('a')).toThrow('Try again in 60 s');
    attempts.check('b');
    now += 60_000;
    attempts.check('a');
    expect(attempts.fail('a')).toBe('first');
  });

  it('take a bounded room', () => {
    const attempts = createAttempts(() => 0);
    for (let origin = 0; origin < 20_000; origin++) attempts.fail(String(origin));
    for (let count = 0; count < 10; count++) attempts.fail('last');
    expect(() => attempts.check('last')).toThrow();
  });
});
