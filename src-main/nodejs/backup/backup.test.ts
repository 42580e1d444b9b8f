import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Logger } from '#shared/lib/logger.ts';
import { openDataDirectory } from '../data-directory.ts';
import { ensureIdentity } from '../identity/identity.ts';
import { createBackup, type BackupOptions } from './create-backup.ts';
import { headerBytes, requireStrong } from './format.ts';
import { restoreBackup, type RestoreOptions } from './restore-backup.ts';

const silent: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};
const passphrase = 'correct horse battery';
const now = Date.UTC(2026, 10, 30, 10, 0, 0);

let parent: string;
let source: string;
let file: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'covey-backup-'));
  source = join(parent, 'source');
  file = join(parent, 'machine.covey');
  await mkdir(source);
  await ensureIdentity(join(source, 'identity'), { logger: silent, now: () => now });
});
afterEach(() => rm(parent, { recursive: true, force: true }));

const backup = (changes: Partial<BackupOptions> = {}) =>
  createBackup({
    dataDirectory: source,
    file,
    passphrase,
    force: false,
    version: '0.1.0',
    now,
    logger: silent,
    copyDatabase: copyFile,
    ...changes,
  });
const restore = (target: string, changes: Partial<RestoreOptions> = {}) =>
  restoreBackup({ dataDirectory: target, file, passphrase, force: false, now, logger: silent, ...changes });

/** Every file below a directory, by relative path; without what restores have moved aside. */
async function contents(directory: string): Promise<Record<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes('replaced-'));
  return Object.fromEntries(
    await Promise.all(
      files.map(async (entry) => {
        const path = join(entry.parentPath, entry.name);
        return [path.slice(directory.length + 1), await readFile(path, 'base64')] as const;
      }),
    ),
  );
}

async function fill(databaseBytes: number): Promise<void> {
  await mkdir(join(source, 'lan'));
  await writeFile(join(source, 'lan', 'authority.pem'), 'authority');
  await writeFile(join(source, 'config.json'), '{"a":1}');
  await writeFile(join(source, 'cluster-secret'), 'covey-secret.x');
  await writeFile(join(source, 'membership.json'), '{}');
  await writeFile(join(source, 'covey.db'), randomBytes(databaseBytes));
}

describe('a backup', () => {
  // Below, at and above the size of a chunk, with the files before it in the same chunk.
  test.each([0, 1, 1024 * 1024 - 1_000, 1024 * 1024, 3 * 1024 * 1024 + 7])(
    'of a database of %i bytes comes back as it was',
    async (databaseBytes) => {
      await fill(databaseBytes);
      const before = await contents(source);
      await mkdir(join(source, 'models'));
      await writeFile(join(source, 'models', 'large.gguf'), 'not in it');
      const report = await backup();
      expect((await stat(file)).mode & 0o777).toBe(0o600);
      expect(report.bytes).toBe((await stat(file)).size);
      const target = join(parent, 'target');
      const restored = await restore(target);
      expect(restored).toMatchObject({ nodeId: report.nodeId, createdAt: now, movedTo: null });
      expect(await contents(target)).toEqual(before);
      expect((await stat(join(target, 'identity', 'key.pem'))).mode & 0o777).toBe(0o600);
      expect((await stat(join(target, 'lan'))).mode & 0o777).toBe(0o700);
      // Neither side keeps anything of the work.
      expect((await readdir(source)).filter((name) => name.startsWith('.'))).toEqual([]);
      expect((await readdir(parent)).sort()).toEqual(['machine.covey', 'source', 'target']);
    },
  );

  test('is taken while the node runs, and shows nothing of what is in it', async () => {
    await fill(1_000);
    const held = await openDataDirectory(source, { logger: silent });
    await backup();
    await held.close();
    const bytes = await readFile(file, 'latin1');
    expect(bytes).not.toContain('PRIVATE KEY');
    expect(bytes).not.toContain('covey-secret');
  });

  test('does not replace a file unasked', async () => {
    await writeFile(file, 'precious');
    await expect(backup()).rejects.toMatchObject({ code: 'invalid_request', message: /--force/ });
    expect(await readFile(file, 'utf8')).toBe('precious');
    await backup({ force: true });
    await restore(join(parent, 'target'));
  });

  test('that fails leaves no file and no copy of the database', async () => {
    await fill(10);
    const copyDatabase = async (from: string, to: string): Promise<void> => {
      await copyFile(from, to);
      throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    };
    await expect(backup({ copyDatabase })).rejects.toMatchObject({ code: 'disk_full', message: /covey\.db/ });
    expect(await readdir(parent)).toEqual(['source']);
    expect((await readdir(source)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  test('needs an identity, a directory to write to, and a file that is small enough', async () => {
    await expect(backup({ dataDirectory: join(parent, 'none') })).rejects.toMatchObject({
      code: 'data_directory_unusable',
    });
    await expect(backup({ file: join(parent, 'no', 'such', 'place') })).rejects.toMatchObject({
      code: 'invalid_request',
      message: /no such file or directory/,
    });
    await writeFile(join(source, 'config.json'), Buffer.alloc(1024 * 1024 + 1));
    await expect(backup()).rejects.toMatchObject({ code: 'invalid_request', message: /config\.json/ });
  });

  test.each(['', 'short', 'nine char', 'aaaaaaaaaaaaaaaa', 'abababababab', 'x'.repeat(2_000)])(
    'is refused with the passphrase %j',
    (weak) => {
      expect(() => requireStrong(weak)).toThrowError(expect.objectContaining({ code: 'passphrase_weak' }));
    },
  );

  test('opens with the same letters written in another way', async () => {
    await backup({ passphrase: 'gr\u00fc\u00dfe an alle' });
    await restore(join(parent, 'target'), { passphrase: 'gru\u0308\u00dfe an alle' });
  });
});

describe('a restore', () => {
  test('refuses a directory that has an identity, and with force moves it aside', async () => {
    await fill(100);
    await backup();
    const target = join(parent, 'target');
    const other = await ensureIdentity(join(target, 'identity'), { logger: silent, now: () => now });
    await writeFile(join(target, 'covey.db'), 'old');
    await writeFile(join(target, 'covey.db-wal'), 'old');
    await mkdir(join(target, 'models'));
    await expect(restore(target)).rejects.toMatchObject({ code: 'invalid_request', message: /--force/ });
    expect(await readFile(join(target, 'identity', 'key.pem'), 'utf8')).toBe(other.keyPem);

    const { movedTo } = await restore(target, { force: true });
    expect(movedTo).toBe(join(target, 'replaced-2026-11-30T10-00-00Z'));
    expect(await contents(target)).toEqual(await contents(source));
    expect(await readdir(target)).toContain('models');
    expect(await readFile(join(movedTo ?? '', 'identity', 'key.pem'), 'utf8')).toBe(other.keyPem);
    expect((await readdir(movedTo ?? '')).sort()).toEqual(['covey.db', 'covey.db-wal', 'identity']);
    const again = await restore(target, { force: true });
    expect(again.movedTo).toBe(`${movedTo}-2`);
  });

  test('refuses a directory in use, naming the process', async () => {
    await backup();
    const held = await openDataDirectory(source, { logger: silent });
    await expect(restore(source, { force: true })).rejects.toMatchObject({
      code: 'data_directory_locked',
      message: expect.stringContaining(String(process.pid)) as string,
    });
    await held.close();
  });

  test('that was interrupted is finished by another; no new identity takes its place meanwhile', async () => {
    await backup();
    const target = join(parent, 'target');
    await mkdir(join(target, '.restore-000000000000'), { recursive: true });
    await writeFile(join(target, 'restore-incomplete'), '');
    await expect(
      ensureIdentity(join(target, 'identity'), { logger: silent, now: () => now }),
    ).rejects.toMatchObject({ code: 'data_directory_unusable', message: /covey restore/ });
    await restore(target);
    expect((await readdir(target)).sort()).toEqual(['identity']);
  });

  test('tells a wrong passphrase from a file that is none, damaged or cut off', async () => {
    await fill(2 * 1024 * 1024);
    await backup();
    const whole = await readFile(file);
    const target = join(parent, 'target');
    const outcome = async (bytes: Buffer, with_ = passphrase): Promise<string> => {
      await writeFile(file, bytes);
      const error = await restore(target, { passphrase: with_ }).catch((thrown: unknown) => thrown);
      return `${(error as { code: string }).code} ${(error as Error).message}`;
    };
    expect(await outcome(whole, 'wrong horse battery')).toMatch(/^passphrase_wrong/);
    expect(await outcome(Buffer.from('{"json": true}'))).toMatch(/^backup_invalid .*not a backup/);
    expect(await outcome(Buffer.alloc(0))).toMatch(/^backup_invalid .*not a backup/);
    expect(await outcome(whole.subarray(0, 40))).toMatch(/^backup_invalid .*cut off/);
    expect(await outcome(whole.subarray(0, headerBytes))).toMatch(/^backup_invalid .*cut off/);
    expect(await outcome(whole.subarray(0, headerBytes + 1024 * 1024 + 16))).toMatch(/^backup_invalid/);
    expect(await outcome(whole.subarray(0, -1))).toMatch(/^backup_invalid .*cut off/);
    expect(await outcome(Buffer.concat([whole, Buffer.alloc(1)]))).toMatch(/^backup_invalid/);
    const later = Buffer.from(whole);
    later[8] = 9;
    expect(await outcome(later)).toMatch(/^backup_invalid .*damaged in its first bytes/);
    await expect(stat(join(target, 'identity'))).rejects.toThrow();
  }, 60_000);

  test('finds every flipped bit, and leaves the directory as it was', async () => {
    await fill(5_000);
    await backup();
    const whole = await readFile(file);
    const target = join(parent, 'target');
    await mkdir(target);
    const flip = async (position: number, bit: number): Promise<void> => {
      const damaged = Buffer.from(whole);
      damaged[position] = (damaged[position] ?? 0) ^ (1 << bit);
      await writeFile(file, damaged);
      await expect(restore(target)).rejects.toMatchObject({ code: 'backup_invalid' });
      expect(await readdir(target)).toEqual([]);
    };
    await fc.assert(fc.asyncProperty(fc.nat(headerBytes - 1), fc.nat(7), flip), { numRuns: 200 });
    // Behind the header each try costs a derivation of the key.
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: headerBytes, max: whole.length - 1 }), fc.nat(7), flip),
      { numRuns: 12 },
    );
  }, 60_000);

  test('reads whatever stands in a file without harm', async () => {
    const target = join(parent, 'target');
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), fc.boolean(), async (bytes, asOne) => {
        await writeFile(file, asOne ? Buffer.concat([Buffer.from('COVEYBAK'), bytes]) : bytes);
        await expect(restore(target)).rejects.toMatchObject({ code: 'backup_invalid' });
      }),
      { numRuns: 300 },
    );
  });

  test('names a file that is not there', async () => {
    await expect(restore(join(parent, 'target'))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(file) as string,
    });
  });
});

describe.skipIf(process.platform !== 'linux' || process.getuid?.() !== 0)('a full disk', () => {
  let small: string;
  beforeEach(async () => {
    small = join(parent, 'small');
    await mkdir(small);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'covey-test', small]);
  });
  afterEach(() => {
    execFileSync('umount', [small]);
  });

  test('is named at backup, and no half file stays', async () => {
    await fill(1024 * 1024);
    const target = join(small, 'machine.covey');
    await expect(backup({ file: target })).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining(target) as string,
    });
    expect(await readdir(small)).toEqual([]);
  });

  test('is named at restore, and what was there stays', async () => {
    await fill(1024 * 1024);
    await backup();
    const target = join(small, 'data');
    const other = await ensureIdentity(join(target, 'identity'), { logger: silent, now: () => now });
    await expect(restore(target, { force: true })).rejects.toMatchObject({ code: 'disk_full' });
    expect(await readdir(target)).toEqual(['identity']);
    expect(await readFile(join(target, 'identity', 'key.pem'), 'utf8')).toBe(other.keyPem);
  });
});
