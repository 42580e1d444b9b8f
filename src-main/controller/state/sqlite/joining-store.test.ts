import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeId } from '../fixtures.ts';
import { openDatabase } from './database.ts';
import { createJoiningStore } from './joining-store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-joining-store-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));
const open = () => openDatabase(join(directory, 'covey.db'));

test('join secrets are marked used, released, and forgotten a day after they expired', () => {
  const connection = open();
  const store = createJoiningStore(connection);
  store.addJoinSecret('h1', 0, 10);
  store.useJoinSecret('h1', 5, nodeId('a'));
  expect(store.joinSecret('h1')).toEqual({ expiresAt: 10, usedAt: 5, usedBy: nodeId('a') });
  store.releaseJoinSecret('h1');
  expect(store.joinSecret('h1')).toEqual({ expiresAt: 10, usedAt: null, usedBy: null });
  expect(store.joinSecret('nope')).toBeNull();
  store.addJoinSecret('h2', 11 + 86_400_000, 12 + 86_400_000);
  expect(store.joinSecret('h1')).toBeNull();
  connection.close();
});

test('blocked keys survive a restart and are unblocked', () => {
  const first = open();
  const store = createJoiningStore(first);
  store.block({ nodeId: nodeId('a'), name: 'anna', blockedAt: 1 });
  store.block({ nodeId: nodeId('b'), name: 'ben', blockedAt: 2 });
  store.block({ nodeId: nodeId('a'), name: 'anna-2', blockedAt: 3 });
  first.close();
  const second = open();
  const again = createJoiningStore(second);
  expect(again.isBlocked(nodeId('a'))).toBe(true);
  expect(again.blocked()).toEqual([
    { nodeId: nodeId('a'), name: 'anna-2', blockedAt: 3 },
    { nodeId: nodeId('b'), name: 'ben', blockedAt: 2 },
  ]);
  again.unblock(nodeId('a'));
  expect(again.isBlocked(nodeId('a'))).toBe(false);
  second.close();
});
