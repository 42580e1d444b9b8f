import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, open, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactRead } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { entries } from '../entries.ts';
import { createChildProcessHost } from '../process-host/child-process-host.ts';
import { createArtifactFetcher } from './fetcher.ts';
import { createHasher, type Hasher } from './hasher.ts';
import { materialise } from './materialise.ts';
import type { ArtifactSource } from './source-pool.ts';
import { openArtifactStore, type ArtifactStore } from './store.ts';
import { takeInFile, takeInTree } from './take-in.ts';

/** Holders are stores in other directories; what they send may be bent. */
const { signal } = new AbortController();
const MiB = 1024 * 1024;
const ids = ['a', 'b', 'c'].map((digit) => digit.repeat(64) as NodeId);
const onProgress = (): void => undefined;

let directory: string;
let hasher: Hasher;
let mine: ArtifactStore;
let theirs: ArtifactStore;
let reads: { nodeId: NodeId; bytes: number }[];
/** What a holder does instead of answering; null: it answers. */
let fault: (read: ArtifactRead) => 'refuse' | 'corrupt' | null;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-fetch-'));
  hasher = createHasher(createChildProcessHost(entries));
  mine = await openArtifactStore(join(directory, 'mine'));
  theirs = await openArtifactStore(join(directory, 'theirs'));
  reads = [];
  fault = () => null;
});
afterEach(async () => {
  hasher.close();
  await rm(directory, { recursive: true, force: true });
});

async function readArtifact({ target, part, path }: ArtifactRead): Promise<number> {
  const what = fault({ target, part, path, grant: '' });
  if (what === 'refuse') throw new CoveyError('artifact_unreachable', 'it is not there');
  if (part.what !== 'bytes') {
    const folder = part.what === 'chunks' ? 'chunks' : 'trees';
    const name = part.what === 'chunks' ? part.file : (await readdir(join(theirs.directory, 'trees')))[0];
    const from =
      part.what === 'chunks'
        ? join(theirs.directory, folder, part.file.slice(0, 2), part.file)
        : join(theirs.directory, folder, name ?? '', [...theirs.trees()][0] + '.json');
    await copyFile(from, path);
    return 0;
  }
  const content = await readFile(theirs.filePath(part.file));
  const piece = Buffer.from(content.subarray(part.offset, part.offset + part.length));
  if (what === 'corrupt') piece[0] = (piece[0] ?? 0) ^ 1;
  const file = await open(path, 'r+');
  await file.write(piece, 0, piece.length, part.offset);
  await file.close();
  reads.push({ nodeId: target.peer, bytes: piece.length });
  return piece.length;
}

const sourcesAt =
  (...nodes: number[]) =>
  async (): Promise<ArtifactSource[]> =>
    nodes.map((index) => ({ nodeId: ids[index] as NodeId, name: `m${index}`, addresses: [], grant: '' }));

const fetch = (
  stake: ArtifactStake,
  sources = sourcesAt(0),
  patienceMs = 1_000,
  stop = signal,
): Promise<void> =>
  createArtifactFetcher({ store: mine, hasher, transport: { readArtifact }, patienceMs }).fetch({
    stake,
    sources,
    signal: stop,
    onProgress,
  });

async function theirFile(content: Uint8Array): Promise<ArtifactStake> {
  const path = join(directory, 'source');
  await writeFile(path, content);
  return takeInFile(theirs, hasher, path, signal);
}

test('a large file comes from several machines at once', async () => {
  const content = randomBytes(50 * MiB + 11);
  const stake = await theirFile(content);
  await fetch(stake, sourcesAt(0, 1, 2));
  expect((await readFile(mine.filePath(stake.id))).equals(content)).toBe(true);
  expect(new Set(reads.map(({ nodeId }) => nodeId)).size).toBe(3);
  expect(reads.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(content.length);
  expect(await mine.chunkList(stake.id)).toEqual(await theirs.chunkList(stake.id));
});

test.each([0, 1, 4 * MiB])('a file of %i bytes comes too', async (bytes) => {
  const stake = await theirFile(randomBytes(bytes));
  await fetch(stake);
  expect(mine.file(stake.id)?.bytes).toBe(bytes);
});

test('a machine that sends something else is found out by chunk, and another one corrects it', async () => {
  const content = randomBytes(40 * MiB);
  const stake = await theirFile(content);
  fault = ({ target, part }) => (target.peer === ids[1] && part.what === 'bytes' ? 'corrupt' : null);
  await fetch(stake, sourcesAt(0, 1));
  expect((await readFile(mine.filePath(stake.id))).equals(content)).toBe(true);
  const total = reads.reduce((sum, { bytes }) => sum + bytes, 0);
  expect(total).toBeGreaterThan(content.length);
  expect(total).toBeLessThan(1.9 * content.length);
});

test('when all send something else it is refused, and nothing of it is in the store', async () => {
  const stake = await theirFile(randomBytes(9 * MiB));
  fault = ({ part }) => (part.what === 'bytes' ? 'corrupt' : null);
  await expect(fetch(stake)).rejects.toMatchObject({ code: 'artifact_corrupt' });
  expect(mine.file(stake.id)).toBeNull();
});

test('10 GB that are declared as 10 bytes, and the reverse, do not come in', async () => {
  const stake = await theirFile(randomBytes(9 * MiB));
  await expect(fetch({ ...stake, bytes: 10 })).rejects.toMatchObject({ code: 'artifact_corrupt' });
  expect(reads.every(({ bytes }) => bytes <= 10)).toBe(true);
  await expect(fetch({ ...stake, bytes: 200 * MiB })).rejects.toMatchObject({ name: 'CoveyError' });
  expect(mine.file(stake.id)).toBeNull();
});

test('a machine that goes away is replaced by the others, and by who is named later', async () => {
  const stake = await theirFile(randomBytes(40 * MiB));
  let asked = 0;
  fault = ({ target, part }) =>
    target.peer === ids[0] && part.what === 'bytes' && part.offset > 10 * MiB ? 'refuse' : null;
  await fetch(stake, async () => {
    asked += 1;
    return sourcesAt(asked === 1 ? 0 : 1)();
  });
  expect(asked).toBeGreaterThan(1);
  expect(mine.file(stake.id)).not.toBeNull();
});

test('nobody has it: the reason after the patience', async () => {
  const stake = await theirFile(randomBytes(100));
  await expect(fetch(stake, async () => [], 300)).rejects.toMatchObject({ code: 'artifact_unreachable' });
  fault = () => 'refuse';
  await expect(fetch(stake, sourcesAt(0), 300)).rejects.toThrow(/not there/);
});

test('what has come before it was broken off does not come again', async () => {
  const content = randomBytes(60 * MiB);
  const stake = await theirFile(content);
  const stop = new AbortController();
  fault = ({ part }) => {
    if (part.what === 'bytes' && part.offset >= 32 * MiB) stop.abort(new CoveyError('cancelled', 'enough'));
    return null;
  };
  await expect(fetch(stake, sourcesAt(0), 1_000, stop.signal)).rejects.toMatchObject({ code: 'cancelled' });
  const before = reads.reduce((sum, { bytes }) => sum + bytes, 0);
  reads = [];
  fault = () => null;
  await fetch(stake);
  expect((await readFile(mine.filePath(stake.id))).equals(content)).toBe(true);
  const after = reads.reduce((sum, { bytes }) => sum + bytes, 0);
  expect(before).toBeGreaterThanOrEqual(24 * MiB);
  expect(after).toBeLessThanOrEqual(content.length - 24 * MiB);
});

test('chunks that other files have are copied here: a changed file moves what changed', async () => {
  const content = randomBytes(80 * MiB);
  await fetch(await theirFile(content));
  reads = [];
  content[50 * MiB] = (content[50 * MiB] ?? 0) ^ 1;
  const changed = await theirFile(content);
  await fetch(changed);
  expect((await readFile(mine.filePath(changed.id))).equals(content)).toBe(true);
  expect(reads.map(({ bytes }) => bytes)).toEqual([4 * MiB]);
});

test('a tree comes with its files, those that are here already excepted', async () => {
  const tree = join(directory, 'tree');
  await mkdir(join(tree, 'deep', 'empty'), { recursive: true });
  for (let index = 0; index < 30; index += 1) await writeFile(join(tree, `f${index}`), `file ${index}`);
  await writeFile(join(tree, 'deep', 'large'), randomBytes(10 * MiB));
  const known = await takeInFile(mine, hasher, join(tree, 'f3'), signal);
  const stake = await takeInTree(theirs, hasher, tree, signal);
  await fetch(stake, sourcesAt(0, 1));
  const out = join(directory, 'out');
  await materialise(mine, stake, out, signal);
  expect((await readdir(out)).length).toBe(31);
  expect(reads.some(({ bytes }) => bytes === known.bytes)).toBe(true);
  expect(reads.length).toBeLessThan(29 + 4);
  await expect(fetch({ ...stake, bytes: 5 })).rejects.toMatchObject({ code: 'artifact_corrupt' });
});
