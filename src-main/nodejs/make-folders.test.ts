import { execFile } from 'node:child_process';
import { mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeFolders } from './make-folders.ts';

let here: string;
beforeEach(async () => {
  here = await mkdtemp(join(tmpdir(), 'covey-folders-'));
});
afterEach(() => rm(here, { recursive: true }));

test('all levels are made with their mode, also by several at once; what is there stays', async () => {
  const path = join(here, 'a/b/c');
  await Promise.all([
    makeFolders(path, 0o700),
    makeFolders(path, 0o700),
    makeFolders(join(here, 'a'), 0o700),
  ]);
  expect((await stat(path)).isDirectory()).toBe(true);
  if (process.platform !== 'win32') expect((await stat(join(here, 'a'))).mode & 0o777).toBe(0o700);
  await makeFolders(path);
  await symlink(path, join(here, 'link'), 'dir');
  await makeFolders(join(here, 'link/d'));
  expect((await stat(join(path, 'd'))).isDirectory()).toBe(true);
});

test('what cannot be made is named with the reason', async () => {
  await writeFile(join(here, 'file'), '');
  await symlink(join(here, 'nowhere/x'), join(here, 'dangling'), 'dir');
  const refused = (name: string): Promise<unknown> =>
    makeFolders(join(here, name)).catch(({ code, path }: NodeJS.ErrnoException) => [code, path]);
  expect(await refused('file')).toEqual(['EEXIST', join(here, 'file')]);
  if (process.platform !== 'win32') {
    expect(await refused('file/x/y')).toEqual(['ENOTDIR', join(here, 'file/x')]);
    expect(await refused('dangling/x')).toEqual(['EEXIST', join(here, 'dangling')]);
    expect(await refused('x'.repeat(300))).toMatchObject(['ENAMETOOLONG', expect.any(String)]);
  }
});

// In a process of its own, which can be ended if it loops: inside of the system's calls no timeout is heard.
test.runIf(process.platform === 'linux')(
  'a file system where nothing can be made gets one answer',
  async () => {
    const module = pathToFileURL(join(import.meta.dirname, 'make-folders.ts')).href;
    const code = `import(${JSON.stringify(module)}).then(({ makeFolders }) => makeFolders('/proc/covey-none/x')).catch(({ code, path }) => console.log(code, path))`;
    const options = { timeout: 10_000, killSignal: 'SIGKILL' as const };
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', code], options);
    expect(stdout).toBe('ENOENT /proc/covey-none\n');
  },
);
