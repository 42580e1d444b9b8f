import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readClusterSecret, writeClusterSecret } from './cluster-secret-file.ts';

const secret = `covey-secret.${'0f'.repeat(16)}`;
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-secret-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

test('is written for its owner alone, read back, and gone when dropped', async () => {
  expect(await readClusterSecret(directory)).toBeNull();
  await writeClusterSecret(directory, secret);
  expect(await readClusterSecret(directory)).toBe(secret);
  if (process.platform !== 'win32') {
    expect((await stat(join(directory, 'cluster-secret'))).mode & 0o777).toBe(0o600);
  }
  await writeClusterSecret(directory, null);
  await writeClusterSecret(directory, null);
  expect(await readClusterSecret(directory)).toBeNull();
  expect(await readdir(directory)).toEqual([]);
});

test('a damaged file is named, without what stands in it', async () => {
  await writeFile(join(directory, 'cluster-secret'), 'covey-secret.0f0f');
  const failure = await readClusterSecret(directory).catch((error: Error) => error.message);
  expect(failure).toContain(join(directory, 'cluster-secret'));
  expect(failure).not.toContain('0f0f');
});
