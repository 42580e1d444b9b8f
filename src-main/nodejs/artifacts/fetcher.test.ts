import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, open, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactRead } from '#shared/host/transport.ts';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';
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
/** Instead of the bytes and digests that others have, these machines have this file's. */
let liars: ReadonlyMap<NodeId, ArtifactId>;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-fetch-'));
  hasher = createHasher(createChildProcessHost(entries));
  mine = await openArtifactStore(join(directory, 'mine'));
  theirs = await openArtifactStore(join(directory, 'theirs'));
  reads = [];
  fault = () => null;
  liars = new Map();
});
afterEach(async () => {
  hasher.close();
  await rm(directory, { recursive: true, force: true });
});

async function readArtifact({ target, part, path }: ArtifactRead): Promise<number> {
  const what = fault({ target, part, path, grant: '' });
  const lied = (file: ArtifactId): ArtifactId => liars.get(target.peer) ?? file;
  if (what === 'refuse') throw new CoveyError('artifact_unreachable', 'it is not there');
  if (part.what !== 'bytes') {
    const folder = part.what === 'chunks' ? 'chunks' : 'trees';
    const name = part.what === 'chunks' ? part.file : (await readdir(join(theirs.directory, 'trees')))[0];
    const from =
      part.what === 'chunks'
        ? join(theirs.directory, folder, lied(part.file).slice(0, 2), lied(part.file))
        : join(theirs.directory, folder, name ?? '', `${[...theirs.trees()][0]}.json`);
    await copyFile(from, path);
    return 0;
  }
  const content = await readFile(theirs.filePath(lied(part.file)));
  const piece = Buffer.from(content.subarray(part.offset, part.offset + part.length));
  if (what === 'corrupt') piece[0] = (piece[0] ?? 0) ^ 1;
  const file = await open(path, 'r+');
  await file.write(piece, 0, piece.length, part.offset);
  await file.close();
  reads.push({ nodeId: target.peer, bytes: piece.length });
  return piece.length;
}

/** Each tree's own manifest, where there are several. */
async function manifestOr(read: ArtifactRead, stakes: readonly ArtifactStake[]): Promise<number> {
  if (read.part.what !== 'manifest') return readArtifact(read);
  const trees = join(theirs.directory, 'trees');
  const { id } = stakes.find(({ id: tree }) => read.grant === tree) as ArtifactStake;
  await copyFile(join(trees, id.slice(0, 2), `${id}.json`), read.path);
  return 0;
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
  await expect(fetch(stake, sourcesAt(0, 2))).rejects.toMatchObject({
    code: 'artifact_corrupt',
    message: `What came for ${stake.id.slice(0, 12)} from m0, m2 is something else.`,
  });
  expect(mine.file(stake.id)).toBeNull();
});

test.each([
  ['the nearest', [0, 1, 2]],
  ['all but the last', [1, 2, 0]],
])('machines that lie about bytes and digests alike cannot keep it from coming: %s', async (_who, order) => {
  const content = randomBytes(30 * MiB);
  const stake = await theirFile(content);
  const other = await theirFile(randomBytes(30 * MiB));
  liars = new Map(
    order.slice(0, _who === 'the nearest' ? 1 : 2).map((index) => [ids[index] as NodeId, other.id]),
  );
  await fetch(stake, sourcesAt(...order));
  expect((await readFile(mine.filePath(stake.id))).equals(content)).toBe(true);
  expect(await mine.chunkList(stake.id)).toEqual(await theirs.chunkList(stake.id));
});

test('two trees that have a file in common come at once, and the file once', async () => {
  const shared = randomBytes(30 * MiB);
  const stakes: ArtifactStake[] = [];
  for (const name of ['one', 'two']) {
    const tree = join(directory, name);
    await mkdir(tree);
    await writeFile(join(tree, 'shared'), shared);
    await writeFile(join(tree, name), name);
    stakes.push(await takeInTree(theirs, hasher, tree, signal));
  }
  const file = await theirFile(shared);
  const fetcher = createArtifactFetcher({
    store: mine,
    hasher,
    transport: { readArtifact: async (read) => manifestOr(read, stakes) },
    patienceMs: 1_000,
  });
  await Promise.all(
    [...stakes, file].map((stake) => {
      const sources = async () => (await sourcesAt(0)()).map((source) => ({ ...source, grant: stake.id }));
      return fetcher.fetch({ stake, sources, signal, onProgress });
    }),
  );
  for (const { id } of stakes) expect(await mine.tree(id)).not.toBeNull();
  expect(reads.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(shared.length + 6);
});

test('who gives up a file that another waits for leaves the work to it', async () => {
  const content = randomBytes(30 * MiB);
  const stake = await theirFile(content);
  const stop = new AbortController();
  const fetcher = createArtifactFetcher({
    store: mine,
    hasher,
    transport: { readArtifact },
    patienceMs: 1_000,
  });
  const first = fetcher.fetch({ stake, sources: sourcesAt(0), signal: stop.signal, onProgress });
  const second = fetcher.fetch({ stake, sources: sourcesAt(1), signal, onProgress });
  stop.abort(new CoveyError('cancelled', 'enough'));
  await expect(first).rejects.toMatchObject({ code: 'cancelled' });
  await second;
  expect((await readFile(mine.filePath(stake.id))).equals(content)).toBe(true);
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

test('a machine that gives nothing and does not end is left for one that does', async () => {
  const content = randomBytes(20 * MiB);
  const stake = await theirFile(content);
  const fetcher = createArtifactFetcher({
    store: mine,
    hasher,
    transport: {
      readArtifact(read, stop) {
        if (read.target.peer !== ids[0]) return readArtifact(read);
        return new Promise((_resolve, reject) => {
          stop.addEventListener('abort', () => reject(stop.reason as Error));
        });
      },
    },
    slowMs: 200,
  });
  await fetcher.fetch({ stake, sources: sourcesAt(0, 1), signal, onProgress });
  expect((await readFile(mine.filePath(stake.id))).equals(content)).toBe(true);
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
