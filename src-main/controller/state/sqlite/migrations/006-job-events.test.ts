import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { jobId } from '../../job-fixtures.ts';
import { migrations, openDatabase } from '../database.ts';
import { createStore } from '../store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-migration-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('events of jobs from the version before are found by their job', () => {
  const path = join(directory, 'covey.db');
  const old = openDatabase(path, migrations.slice(0, 5));
  const add = old.prepare('INSERT INTO events (at, kind, level, message, job_id) VALUES (?, ?, ?, ?, ?)');
  add.run(1, 'job-submitted', 'info', 'sum was submitted.', jobId);
  add.run(2, 'job-submitted', 'info', 'another was submitted.', 'j-0000000f');
  add.run(3, 'node-joined', 'info', 'alpha joined.', null);
  old.close();

  const connection = openDatabase(path);
  const store = createStore(connection);
  expect(store.eventPage({ job: jobId, limit: 5 })).toMatchObject({
    events: [{ message: 'sum was submitted.', jobId }],
    more: false,
  });
  const [step] = connection
    .prepare<[], { detail: string }>(
      "EXPLAIN QUERY PLAN SELECT * FROM events WHERE job_id = 'x' AND id < 5 ORDER BY id DESC LIMIT 9",
    )
    .all();
  expect(step?.detail).toMatch(/^SEARCH events USING INDEX events_by_job /);
  store.close();
});
