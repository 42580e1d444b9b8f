import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { definition, jobId } from '../../job-fixtures.ts';
import { apply } from '../../apply.ts';
import { migrations, openDatabase } from '../database.ts';
import { createStore } from '../store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-migration-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('events of the version before are there, and jobs can be kept', () => {
  const path = join(directory, 'covey.db');
  const old = openDatabase(path, migrations.slice(0, 3));
  old
    .prepare('INSERT INTO events (at, kind, level, message) VALUES (?, ?, ?, ?)')
    .run(1, 'node-joined', 'info', 'alpha joined.');
  old.close();

  const store = createStore(openDatabase(path));
  const before = store.load(0);
  expect(before.jobs.size).toBe(0);
  const after = apply(before, {
    type: 'job-submitted',
    at: 2,
    definition: definition(),
    distribution: { mode: 'auto' },
  });
  const [event] = store.save(before, after, [
    { at: 2, kind: 'job-submitted', level: 'info', message: 'job was submitted.', jobId },
  ]);
  expect(event).toMatchObject({ id: 2, jobId });
  expect(store.recentEvents(0, 5)).toMatchObject([{ message: 'alpha joined.' }, { jobId }]);
  expect(store.load(3).jobs).toEqual(after.jobs);
  store.close();
});
