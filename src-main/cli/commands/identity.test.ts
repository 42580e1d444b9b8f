import { copyFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { scriptedIo } from '../../../e2e/support/cli-io.ts';
import { ensureIdentity, type Identity } from '../../nodejs/identity/identity.ts';
import { createLogger } from '../../nodejs/logging.ts';
import { runCli } from '../main.ts';

const passphrase = 'correct horse battery';
let parent: string;
let data: string;
let file: string;
let identity: Identity;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'covey-cli-identity-'));
  data = join(parent, 'data');
  file = join(parent, 'machine.covey');
  const logger = createLogger({ level: 'error', format: 'text' });
  identity = await ensureIdentity(join(data, 'identity'), { logger, now: Date.now });
});
afterEach(() => rm(parent, { recursive: true, force: true }));

async function covey(
  words: readonly string[],
  changes: Parameters<typeof scriptedIo>[0] = {},
): Promise<{ code: number; out: string; err: string }> {
  const io = scriptedIo({ workingDirectory: parent, copyDatabase: copyFile, ...changes });
  const code = await runCli(['--data', data, ...words], io);
  return { code, out: io.stdout(), err: io.stderr() };
}

describe('covey identity', () => {
  test('shows whose directory it is, also for programs', async () => {
    for (const words of [['identity'], ['identity', 'show']]) {
      const { code, out } = await covey(words);
      expect(code).toBe(0);
      expect(out).toContain(`node id    ${identity.nodeId}`);
      expect(out).toContain(data);
    }
    const { out } = await covey(['identity', '--json']);
    expect(JSON.parse(out)).toMatchObject({ nodeId: identity.nodeId, isController: false });
  });

  test('new asks, tells what follows, and does nothing without a yes', async () => {
    await writeFile(join(data, 'covey.db'), '');
    const questions: string[] = [];
    const ask = (answer: string | null) => async (question: string) => (questions.push(question), answer);
    expect(await covey(['identity', 'new'], { ask: ask('n') })).toMatchObject({
      code: 1,
      err: 'Nothing was changed.\n',
    });
    expect(questions[0]).toContain('every worker must be added again');
    expect(await covey(['identity', 'new'], { ask: ask(null) })).toMatchObject({
      code: 2,
      err: expect.stringContaining('--yes') as string,
    });
    expect((await covey(['identity'])).out).toContain(identity.nodeId);
    expect(await covey(['identity', 'new'], { ask: ask('y') })).toMatchObject({
      code: 0,
      out: expect.stringContaining('add its machines') as string,
    });
    expect(await readdir(data)).not.toContain('covey.db');
    expect((await covey(['identity'])).out).not.toContain(identity.nodeId);
  });

  test('a wrong word is refused', async () => {
    expect((await covey(['identity', 'nwe'])).code).toBe(2);
    expect((await covey(['backup'])).code).toBe(2);
  });
});

describe('covey backup and restore', () => {
  test('take paths from where they are called, and say where things are', async () => {
    const saved = await covey(['backup', 'machine.covey'], { answers: [passphrase] });
    expect(saved).toMatchObject({ code: 0, out: expect.stringContaining(file) as string });
    data = join(parent, 'other');
    const restored = await covey(['restore', 'machine.covey'], { answers: [passphrase] });
    expect(restored).toMatchObject({ code: 0, out: expect.stringContaining(data) as string });
    expect((await covey(['identity'])).out).toContain(identity.nodeId);
  });

  test('on a terminal the passphrase is typed twice', async () => {
    const differ = await covey(['backup', file], { errIsTty: true, answers: [passphrase, 'another one'] });
    expect(differ).toMatchObject({ code: 2, err: expect.stringContaining('differ') as string });
    expect(await readdir(parent)).toEqual(['data']);
    const short = await covey(['backup', file], { errIsTty: true, answers: ['tooshort', 'other'] });
    expect(short).toMatchObject({ code: 1, err: expect.not.stringContaining('differ') as string });
    const same = await covey(['backup', file], { errIsTty: true, answers: [passphrase, passphrase] });
    expect(same.code).toBe(0);
  });

  test('need a passphrase, and never print it', async () => {
    expect(await covey(['backup', file])).toMatchObject({ code: 2 });
    const weak = await covey(['backup', file, '--json'], { answers: ['tooshort'] });
    expect(weak.code).toBe(1);
    expect(JSON.parse(weak.out)).toMatchObject({ error: { code: 'passphrase_weak' } });
    await covey(['backup', file], { answers: [passphrase] });
    const wrong = await covey(['restore', file], { answers: ['not the passphrase'] });
    expect(wrong.code).toBe(1);
    expect(weak.out + weak.err + wrong.out + wrong.err).not.toMatch(/tooshort|not the passphrase/);
  });
});
