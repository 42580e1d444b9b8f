import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeId } from '../../fixtures.ts';
import { migrations, openDatabase } from '../database.ts';
import { createStore } from '../store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-migration-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('machines and events of the version before are there, and nothing is paused', () => {
  const path = join(directory, 'covey.db');
  const old = openDatabase(path, migrations.slice(0, 2));
  old.prepare('INSERT INTO nodes (id, name, joined_at) VALUES (?, ?, ?)').run(nodeId('a'), 'alpha', 5);
  const add = old.prepare('INSERT INTO events (at, kind, level, message, node_id) VALUES (?, ?, ?, ?, ?)');
  add.run(1, 'node-joined', 'info', 'alpha joined.', nodeId('a'));
  add.run(2, 'audit-login', 'warn', 'somebody', null);
  old.close();

  const connection = openDatabase(path);
  const store = createStore(connection);
  expect(store.load(0).nodes.get(nodeId('a'))?.durable).toMatchObject({ name: 'alpha', pausedAt: null });
  expect(store.eventPage({ limit: 5 }).events.map((event) => event.message)).toEqual([
    'somebody',
    'alpha joined.',
  ]);
  expect(store.eventPage({ limit: 5, node: nodeId('a') }).events).toHaveLength(1);
  const indexes = connection
    .prepare("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'events_%' ORDER BY name")
    .all();
  expect(indexes).toEqual([
    { name: 'events_by_deployment' },
    { name: 'events_by_job' },
    { name: 'events_by_kind' },
    { name: 'events_by_level' },
    { name: 'events_by_node' },
  ]);
  store.close();
});
