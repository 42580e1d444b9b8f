import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { removeDirectory } from './remove-directory.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-remove-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

it('removes what is there, what links lead to stays, and nothing is no error', async () => {
  const [kept, doomed] = [join(directory, 'kept'), join(directory, 'doomed')];
  mkdirSync(kept);
  writeFileSync(join(kept, 'file'), '');
  mkdirSync(join(doomed, 'a'), { recursive: true });
  symlinkSync(kept, join(doomed, 'a', 'link'));
  await removeDirectory(doomed);
  await removeDirectory(doomed);
  expect(existsSync(doomed)).toBe(false);
  expect(existsSync(join(kept, 'file'))).toBe(true);
});

// Root may remove anything, so another account has to.
const nobody = 65_534;
it.runIf(process.platform === 'linux' && process.getuid?.() === 0)(
  'removes directories that a program has closed',
  () => {
    chownSync(directory, nobody, nobody);
    const doomed = join(directory, 'doomed');
    const module = pathToFileURL(join(import.meta.dirname, 'remove-directory.ts')).href;
    const code = `
      const { mkdirSync, chmodSync, writeFileSync } = await import('node:fs');
      const { removeDirectory } = await import(${JSON.stringify(module)});
      const doomed = ${JSON.stringify(doomed)};
      mkdirSync(doomed + '/a/b', { recursive: true });
      writeFileSync(doomed + '/a/b/file', '');
      chmodSync(doomed + '/a/b', 0);
      chmodSync(doomed + '/a', 0o500);
      await removeDirectory(doomed);`;
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      uid: nobody,
      gid: nobody,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
      timeout: 20_000,
    });
    expect(stderr).toBe('');
    expect(status).toBe(0);
    expect(existsSync(doomed)).toBe(false);
  },
);
