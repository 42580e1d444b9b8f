import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ArtifactId, JobId } from '#shared/lib/ids.ts';
import { createArtifactRecordStore, type ArtifactRow } from '../state/sqlite/artifact-store.ts';
import { migrations, openDatabase, type Connection } from '../state/sqlite/database.ts';
import { createArtifactRecords, type ArtifactRecords } from './records.ts';

const graceMs = 1_000;
const jobs = ['j-00000001', 'j-00000002'] as JobId[];
const id = (text: string): ArtifactId => text.padEnd(64, '0') as ArtifactId;
let directory: string;
let connection: Connection;
let now: number;
let records: ArtifactRecords;

const open = (): void => {
  connection = openDatabase(join(directory, 'covey.db'));
  records = createArtifactRecords(createArtifactRecordStore(connection), graceMs, () => now);
};
const add = (text: string, name: string, pinned = false): ArtifactId => {
  records.add({ id: id(text), kind: 'file', bytes: 5 }, 1, name, pinned);
  return id(text);
};
const find = (ref: string, titles: Partial<Record<string, string>> = {}): ArtifactRow =>
  records.find(ref, (row) => titles[row.id] ?? row.name);
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-records-'));
  now = 10_000;
  open();
});
afterEach(() => {
  connection.close();
  rmSync(directory, { recursive: true, force: true });
});

test('the tables come to a database of the version before', () => {
  const path = join(directory, 'old.db');
  openDatabase(path, migrations.slice(0, 4)).close();
  const newer = openDatabase(path);
  expect(createArtifactRecordStore(newer).all()).toEqual([]);
  newer.close();
});

test('an artifact is found by id, by a prefix of 8 digits, and by a name that only it has', () => {
  const one = add('abcdef0123', 'data');
  add('abcdef0199', 'other');
  expect(find(one).id).toBe(one);
  expect(find('ABCDEF0123').id).toBe(one);
  expect(find('data').id).toBe(one);
  expect(() => find('abcdef01')).toThrow(/2 artifacts/);
  expect(() => find('abcdef0')).toThrow(/no artifact/);
  add('99', 'data');
  expect(() => find('data')).toThrow(/name one by its id/);
});

test('it is needed while it is pinned or a job refers to it, also after a restart; then for the grace time', () => {
  const one = add('1', 'a', true);
  const when = (): number | null => {
    const row = records.get(one);
    return row && records.collectableAt(row);
  };
  records.refer(jobs[0] as JobId, [one, one]);
  records.refer(jobs[1] as JobId, [one]);
  records.unpin(one);
  expect(when()).toBeNull();
  connection.close();
  open();
  expect(records.jobs(one)).toEqual(jobs);
  expect(records.release(jobs[0] as JobId)).toEqual([]);
  now = 20_000;
  expect(records.release(jobs[1] as JobId)).toEqual([one]);
  expect(when()).toBe(21_000);
  now = 100_000;
  records.used(one);
  expect(when()).toBe(101_000);
  records.refer(jobs[1] as JobId, [one]);
  expect(when()).toBeNull();
});

test('references are all or none', () => {
  const one = add('1', 'a');
  expect(() => records.refer(jobs[0] as JobId, [one, id('2')])).toThrow(/no artifact/);
  connection.close();
  open();
  expect(records.jobs(one)).toEqual([]);
});

test('putting what is there again pins it under its new name; a result does not rename it', () => {
  const one = add('1', 'result');
  add('1', 'mine', true);
  expect(records.get(one)).toMatchObject({ name: 'mine', pinned: true, freedAt: null });
  add('1', 'result again');
  expect(records.get(one)).toMatchObject({ name: 'mine', pinned: true });
});

test('what lists call an artifact goes before what is only its own name', () => {
  const [mine, result, other] = [add('1', 'frame.png'), add('2', 'frame.png'), add('3', 'frame.png')];
  const titles = { [result]: 'render/1/frame.png', [other]: 'render/1/frame.png' };
  expect(find('frame.png', titles).id).toBe(mine);
  expect(find('render/1/frame.png', { [result]: 'render/1/frame.png' }).id).toBe(result);
  expect(() => find('render/1/frame.png', titles)).toThrow(
    '2 artifacts are "render/1/frame.png": name one by its id (200000000000, 300000000000).',
  );
  expect(() => find('frame.png')).toThrow(/^3 artifacts/);
});
