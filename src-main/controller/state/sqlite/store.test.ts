import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { apply } from '../apply.ts';
import type { ControllerEvent } from '../events.ts';
import { connected, deployment, deploymentId, facts, joined, nodeId, replica } from '../fixtures.ts';
import { emptyState, type ControllerState } from '../state.ts';
import { migrations, openDatabase } from './database.ts';
import { createStore } from './store.ts';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-store-'));
  path = join(directory, 'covey.db');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function after(...events: ControllerEvent[]): ControllerState {
  return events.reduce(apply, emptyState(0));
}

describe('controller store', () => {
  test('nodes, deployments and replicas come back as they were written', () => {
    const store = createStore(openDatabase(path));
    const state = after(
      joined('a', 'alpha'),
      connected('a', { at: 7 }),
      joined('b', 'beta'),
      {
        type: 'drain-started',
        at: 8,
        nodeId: nodeId('b'),
        drain: { startedAt: 8, deadlineAt: 9, completedAt: null },
      },
      { type: 'deployment-created', at: 9, deployment: deployment() },
      { type: 'replica-placed', at: 10, deploymentId, replica: replica(1, 3) },
      { type: 'leader-assigned', at: 11, deploymentId, epoch: 1 },
    );
    store.save(emptyState(0), state, []);
    store.close();

    const loaded = createStore(openDatabase(path)).load(100);
    expect([...loaded.nodes.values()].map((node) => node.durable)).toEqual(
      [...state.nodes.values()].map((node) => node.durable),
    );
    expect(loaded.nodes.get(nodeId('a'))?.durable.facts).toEqual(facts);
    expect(loaded.nodes.get(nodeId('a'))?.live).toMatchObject({ session: null, heardAt: 100, lost: false });
    expect(loaded.deployments).toEqual(state.deployments);
  });

  test('facts of a version that did not name the machine are read', () => {
    const connection = openDatabase(path);
    const store = createStore(connection);
    store.save(emptyState(0), after(joined('a', 'alpha'), connected('a')), []);
    connection.exec("UPDATE nodes SET facts = json_remove(facts, '$.machine')");
    expect(store.load(0).nodes.get(nodeId('a'))?.durable.facts).toEqual(facts);
  });

  test('only the difference is written, and what is gone is deleted', () => {
    const store = createStore(openDatabase(path));
    const one = after(joined('a', 'alpha'), { type: 'deployment-created', at: 1, deployment: deployment() });
    store.save(emptyState(0), one, []);
    const two = [
      { type: 'node-removed', at: 2, nodeId: nodeId('a') } as const,
      { type: 'deployment-removed', at: 2, deploymentId } as const,
    ].reduce<ControllerState>(apply, one);
    store.save(one, two, []);
    const loaded = store.load(0);
    expect(loaded.nodes.size).toBe(0);
    expect(loaded.deployments.size).toBe(0);
    expect(loaded.removedNodes.get(nodeId('a'))).toEqual({ id: nodeId('a'), name: 'alpha', removedAt: 2 });
  });

  test('events get rising ids and are read from any point', () => {
    const store = createStore(openDatabase(path));
    const state = emptyState(0);
    const saved = store.save(state, state, [
      { at: 1, kind: 'node-joined', level: 'info', message: 'one', nodeId: nodeId('a') },
      { at: 2, kind: 'x', level: 'warn', message: 'two', deploymentId },
    ]);
    expect(saved.map((event) => event.id)).toEqual([1, 2]);
    expect(store.recentEvents(1, 10)).toEqual([saved[1]]);
    expect(store.recentEvents(0, 1)).toEqual([saved[1]]);
  });

  test('a file that is no database is refused by name', () => {
    writeFileSync(path, 'this is not a database, it only stands where one should be'.repeat(100));
    expect(() => openDatabase(path)).toThrowError(
      expect.objectContaining({ code: 'data_directory_unusable' }),
    );
  });

  test('a database of a newer version is refused, an older one is migrated once', () => {
    openDatabase(path).close();
    const more = {
      version: migrations.length + 1,
      name: 'more',
      sql: 'CREATE TABLE extra (id INTEGER) STRICT',
    };
    openDatabase(path, [...migrations, more]).close();
    openDatabase(path, [...migrations, more]).close();
    expect(() => openDatabase(path)).toThrowError(/newer version/);
  });

  test('a migration that fails leaves the schema as it was', () => {
    openDatabase(path).close();
    const broken = {
      version: migrations.length + 1,
      name: 'broken',
      sql: 'CREATE TABLE half (id INTEGER) STRICT; SELECT nonsense;',
    };
    expect(() => openDatabase(path, [...migrations, broken])).toThrow();
    const connection = openDatabase(path);
    expect(connection.prepare("SELECT name FROM sqlite_master WHERE name = 'half'").get()).toBeUndefined();
    connection.close();
  });
});
