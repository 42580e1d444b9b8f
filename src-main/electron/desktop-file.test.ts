import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDesktopFile } from './desktop-file.ts';
import { openLogFiles } from './log-file.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-desktop-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

test('what is kept is there at the next start, for its owner alone', async () => {
  const file = await openDesktopFile(directory);
  expect(file.current).toEqual({ role: null, window: null, toldAboutTray: false });
  await Promise.all([file.keep({ role: 'both' }), file.keep({ toldAboutTray: true })]);
  const again = await openDesktopFile(directory);
  expect(again.current).toEqual({ role: 'both', window: null, toldAboutTray: true });
  expect((await stat(join(directory, 'desktop.json'))).mode & 0o777).toBe(0o600);
});

test.each([
  ['no JSON', '{'],
  ['another type', '[1]'],
  ['nonsense in a field', '{"role":"king","window":{"x":"left"},"toldAboutTray":3}'],
])('%s costs what it held, not the start', async (_what, text) => {
  await writeFile(join(directory, 'desktop.json'), text);
  expect((await openDesktopFile(directory)).current).toEqual({
    role: null,
    window: null,
    toldAboutTray: false,
  });
});

test('the log turns over, and a crash has a file of its own', async () => {
  const files = openLogFiles(directory, () => 0);
  const line = `${'x'.repeat(1024 * 1024 - 1)}\n`;
  for (let count = 0; count < 6; count += 1) files.write(line);
  expect((await stat(join(directory, 'logs', 'covey.log'))).size).toBe(1024 * 1024);
  expect((await stat(join(directory, 'logs', 'covey.1.log'))).size).toBe(5 * 1024 * 1024);
  const crash = files.crash('at the end');
  expect(crash).toMatch(/crash-1970-01-01T00-00-00\.000Z\.log$/);
  expect(await readFile(crash ?? '', 'utf8')).toBe('at the end');
  expect(files.crash('again')).toBeNull();
});
