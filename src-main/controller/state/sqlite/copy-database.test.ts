import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { copyDatabase } from './copy-database.ts';
import { openDatabase } from './database.ts';

let directory: string;
let source: string;
let destination: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-copy-'));
  source = join(directory, 'covey.db');
  destination = join(directory, 'copy.db');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('a database in use is copied as of one moment, with what its log alone holds', async () => {
  const running = openDatabase(source);
  const add = running.prepare(
    "INSERT INTO events (at, kind, level, message) VALUES (?, 'x', 'info', printf('%.1000c', 'm'))",
  );
  const addPair = running.transaction((at: number) => {
    add.run(at);
    add.run(at);
  });
  for (let at = 0; at < 500; at += 1) addPair(at);
  const copying = copyDatabase(source, destination);
  for (let at = 500; at < 600; at += 1) addPair(at);
  await copying;
  for (let at = 600; at < 700; at += 1) addPair(at);
  running.close();

  const copy = openDatabase(destination);
  const { rows, moments } = copy
    .prepare('SELECT count(*) AS rows, count(DISTINCT at) AS moments FROM events')
    .get() as { rows: number; moments: number };
  copy.close();
  expect(moments).toBeGreaterThanOrEqual(500);
  expect(rows).toBe(moments * 2);
});

test('a file that is no database is refused by name', async () => {
  writeFileSync(source, 'no database'.repeat(1_000));
  await expect(copyDatabase(source, destination)).rejects.toMatchObject({
    code: 'data_directory_unusable',
    message: expect.stringContaining(source) as string,
  });
});
