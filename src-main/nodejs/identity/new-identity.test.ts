import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Logger } from '#shared/lib/logger.ts';
import { openDataDirectory } from '../data-directory.ts';
import { ensureIdentity, type Identity } from './identity.ts';
import { newIdentity, type IdentityUse } from './new-identity.ts';

const silent: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};
const now = (): number => Date.UTC(2026, 10, 30, 10, 0, 0);

let data: string;
let before: Identity;
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'covey-new-identity-'));
  before = await ensureIdentity(join(data, 'identity'), { logger: silent, now });
});
afterEach(() => rm(data, { recursive: true, force: true }));

const renew = (confirm: (use: IdentityUse) => Promise<boolean> = async () => true) =>
  newIdentity({ dataDirectory: data, logger: silent, now, confirm });

describe('a new identity', () => {
  test('replaces the key and forgets what went with it; models and settings stay', async () => {
    const membership = {
      controllerId: 'c'.repeat(64),
      controllerName: 'hub',
      addresses: [{ host: 'h', port: 1 }],
    };
    await writeFile(join(data, 'membership.json'), JSON.stringify(membership));
    await writeFile(join(data, 'cluster-secret'), 'x');
    await writeFile(join(data, 'api-access.json'), '{}');
    await writeFile(join(data, 'config.json'), '{}');
    await mkdir(join(data, 'models'));
    const report = await renew(async (use) => {
      expect(use).toMatchObject({ identity: before, isController: false, controllerName: 'hub' });
      return true;
    });
    expect(report?.before).toBe(before.nodeId);
    const after = await ensureIdentity(join(data, 'identity'), { logger: silent, now });
    expect(after.nodeId).toBe(report?.nodeId);
    expect(after.nodeId).not.toBe(before.nodeId);
    expect((await readdir(data)).sort()).toEqual([
      'config.json',
      'identity',
      'models',
      'replaced-2026-11-30T10-00-00Z',
    ]);
    expect(await readFile(join(report?.movedTo ?? '', 'identity', 'key.pem'), 'utf8')).toBe(before.keyPem);
    expect((await readdir(report?.movedTo ?? '')).sort()).toEqual([
      'api-access.json',
      'cluster-secret',
      'identity',
      'membership.json',
    ]);
  });

  test('tells that it is a controller before it is asked', async () => {
    await writeFile(join(data, 'covey.db'), '');
    let asked: IdentityUse | null = null;
    expect(await renew(async (use) => ((asked = use), false))).toBeNull();
    expect(asked).toMatchObject({ isController: true });
    expect((await readdir(data)).sort()).toEqual(['covey.db', 'identity']);
  });

  test('a controller begins with no machines: none of the old ones could come back', async () => {
    for (const name of ['covey.db', 'covey.db-wal', 'covey.db-shm']) await writeFile(join(data, name), name);
    const report = await renew();
    expect((await readdir(data)).sort()).toEqual(['identity', 'replaced-2026-11-30T10-00-00Z']);
    expect(await readFile(join(report?.movedTo ?? '', 'covey.db'), 'utf8')).toBe('covey.db');
    expect(await readdir(report?.movedTo ?? '')).toContain('covey.db-wal');
  });

  test('is refused while the node runs, naming the process', async () => {
    const held = await openDataDirectory(data, { logger: silent });
    await expect(renew()).rejects.toMatchObject({
      code: 'data_directory_locked',
      message: expect.stringContaining(String(process.pid)) as string,
    });
    await held.close();
    expect(await readFile(join(data, 'identity', 'key.pem'), 'utf8')).toBe(before.keyPem);
  });

  test('is none where there was none, and nothing is made', async () => {
    const nowhere = join(data, 'nowhere');
    await expect(
      newIdentity({ dataDirectory: nowhere, logger: silent, now, confirm: async () => true }),
    ).rejects.toMatchObject({ code: 'data_directory_unusable' });
    await expect(readdir(nowhere)).rejects.toThrow();
  });
});
