import { randomBytes } from 'node:crypto';
import {
  copyFile,
  mkdir,
  mkdtemp,
  open as openFile,
  readFile,
  readdir,
  rm,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ArtifactStake, TreeManifest } from '#shared/domain/artifact.ts';
import { manifestFiles } from '#shared/domain/tree-manifest.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactRead } from '#shared/host/transport.ts';
import { createHasher, type Hasher } from '../../src-main/nodejs/artifacts/hasher.ts';
import { openArtifactStore, type ArtifactStore } from '../../src-main/nodejs/artifacts/store.ts';
import { takeInFile, takeInTree } from '../../src-main/nodejs/artifacts/take-in.ts';
import { entries } from '../../src-main/nodejs/entries.ts';
import { createChildProcessHost } from '../../src-main/nodejs/process-host/child-process-host.ts';
import { silentLogger } from '../../src-main/nodejs/transport/fixtures.ts';
import { createLentDisk, type LentDisk } from '../lend/lent-disk.ts';
import {
  createArtifactCache,
  type ArtifactCacheOptions,
  type SessionArtifactCache,
} from './artifact-cache.ts';

/** The controller answers at once, and every artifact is read from the store `theirs`. */
const { signal } = new AbortController();
const MiB = 1024 * 1024;
let directory: string;
let hasher: Hasher;
let store: ArtifactStore;
let theirs: ArtifactStore;
let cache: SessionArtifactCache;
let disk: LentDisk;
let limitBytes: number | null;
let aheadMs: number;
/** Waited for before bytes of a file are given. */
let beforeBytes: () => Promise<void>;

const now = (): number => Date.now() + aheadMs;

async function readArtifact({ part, path, grant }: ArtifactRead): Promise<number> {
  const at = (folder: string, id: string, suffix = ''): string =>
    join(theirs.directory, folder, id.slice(0, 2), id + suffix);
  if (part.what !== 'bytes') {
    await copyFile(part.what === 'manifest' ? at('trees', grant, '.json') : at('chunks', part.file), path);
    return 0;
  }
  await beforeBytes();
  const content = await readFile(at('files', part.file));
  const file = await openFile(path, 'r+');
  await file.write(content, part.offset, part.length, part.offset);
  await file.close();
  return part.length;
}

async function open(shared: ArtifactCacheOptions['shared'] = false): Promise<void> {
  store = await openArtifactStore(join(directory, 'artifacts'), now);
  disk = createLentDisk(() => limitBytes);
  cache = await createArtifactCache({
    store,
    hasher,
    shared,
    disk,
    transport: { readArtifact, addArtifactGrant: () => undefined },
    send(frame) {
      if (frame.type !== 'artifact-wanted') return true;
      const artifact: ArtifactStake = { id: frame.artifact, kind: 'file', bytes: 0 };
      const source = { nodeId: 'a'.repeat(64) as NodeId, name: 'm', addresses: [], grant: frame.artifact };
      setImmediate(() => cache.onFrame({ type: 'artifact-sources', artifact, sources: [source] }));
      return true;
    },
    clock: { now },
    logger: silentLogger,
  });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-cache-'));
  hasher = createHasher(createChildProcessHost(entries));
  theirs = await openArtifactStore(join(directory, 'theirs'));
  limitBytes = null;
  aheadMs = 0;
  beforeBytes = async () => undefined;
  await open();
});
afterEach(async () => {
  cache.close();
  hasher.close();
  await rm(directory, { recursive: true, force: true });
});

async function fileOf(bytes: number): Promise<string> {
  const path = join(directory, `file-${randomBytes(4).toString('hex')}`);
  await writeFile(path, randomBytes(bytes));
  return path;
}
const theirFile = async (bytes: number): Promise<ArtifactStake> =>
  takeInFile(theirs, hasher, await fileOf(bytes), signal);
async function theirTree(files: Readonly<Record<string, Buffer>>): Promise<ArtifactStake> {
  const tree = await mkdtemp(join(directory, 'tree-'));
  for (const [name, content] of Object.entries(files)) await writeFile(join(tree, name), content);
  return takeInTree(theirs, hasher, tree, signal);
}
const got = async (stake: ArtifactStake): Promise<void> => (await cache.ensure(stake, signal)).release();
const free = async (stake: ArtifactStake): Promise<void> => {
  cache.onFrame({ type: 'artifacts-free', artifacts: [stake.id] });
  await new Promise((resolve) => setImmediate(resolve));
};

test('two that come at once do not both get the last of what is lent', async () => {
  limitBytes = 10 * MiB;
  const stakes = [await theirFile(6 * MiB), await theirFile(6 * MiB)];
  let release = (): void => undefined;
  const both = new Promise<void>((resolve) => (release = resolve));
  beforeBytes = () => both;
  const outcomes = Promise.allSettled(stakes.map(got));
  await expect.poll(() => disk.shareOf('models'), { timeout: 5_000 }).toBe(4 * MiB);
  release();
  expect((await outcomes).map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(store.usedBytes).toBe(6 * MiB);
});

test('models and artifacts share the limit: artifacts that nothing needs make room, outputs stay', async () => {
  limitBytes = 10 * MiB;
  let modelBytes = 3 * MiB;
  disk.use('models', { bytes: () => modelBytes, giveUp: async () => undefined });
  const input = await theirFile(5 * MiB);
  await got(input);
  const output = await cache.addFile(await fileOf(MiB), signal);
  expect(disk.shareOf('models')).toBe(4 * MiB);
  await disk.askOthers('models', 2 * MiB);
  expect(store.file(input.id)).toBeNull();
  expect(store.file(output.id)).not.toBeNull();
  expect(disk.shareOf('models')).toBe(9 * MiB);
  modelBytes = 8 * MiB;
  await expect(cache.ensure(input, signal)).rejects.toMatchObject({ code: 'disk_full' });
  // Outputs keep to it as well, and nothing is copied first.
  await expect(cache.addFile(await fileOf(2 * MiB), signal)).rejects.toMatchObject({ code: 'disk_full' });
  expect(await readdir(join(store.directory, 'incoming'))).toEqual([]);
  await free(output);
  await cache.addFile(await fileOf(2 * MiB), signal);
  expect(store.file(output.id)).toBeNull();
});

test('files of no artifact, and what a fetch has left, go: at the start when they are old, else for want of room', async () => {
  const orphan = await takeInFile(store, hasher, await fileOf(MiB), signal);
  const left = join(await store.incoming(`fetch-${'b'.repeat(64)}`), 'data');
  await writeFile(left, randomBytes(2 * MiB));
  await open();
  expect(store.file(orphan.id)).not.toBeNull();
  limitBytes = 4 * MiB;
  // Both count until they go.
  expect(disk.shareOf('models')).toBeLessThanOrEqual(MiB);
  aheadMs = 2 * 3_600_000;
  await got(await theirFile(4 * MiB));
  expect(store.file(orphan.id)).toBeNull();
  expect(await readdir(join(store.directory, 'incoming'))).toEqual([]);
  const old = await takeInFile(store, hasher, await fileOf(MiB), signal);
  aheadMs += 25 * 3_600_000;
  await open();
  expect(store.file(old.id)).toBeNull();
});

test('what goes to make room takes no file along of a tree that is coming', async () => {
  const shared = randomBytes(3 * MiB);
  const old = await theirTree({ shared, a: randomBytes(1_000) });
  const next = await theirTree({ shared, b: randomBytes(2_000) });
  await cache.materialise(old, join(directory, 'old'), signal);
  await free(old);
  limitBytes = 7 * MiB;
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  beforeBytes = () => gate;
  const coming = cache.materialise(next, join(directory, 'next'), signal);
  const manifest = (await theirs.tree(next.id)) as TreeManifest;
  await expect.poll(() => disk.shareOf('models'), { timeout: 5_000 }).toBeLessThan(4 * MiB);
  await disk.askOthers('models', 7 * MiB);
  expect(await store.tree(old.id)).toBeNull();
  release();
  await coming;
  for (const { sha256 } of manifestFiles(manifest)) expect(store.file(sha256)).not.toBeNull();
});

test("beside a controller's own artifacts nothing is counted, written down or dropped here", async () => {
  await open({ room: async () => () => undefined });
  limitBytes = MiB;
  const orphan = await takeInFile(store, hasher, await fileOf(3 * MiB), signal);
  aheadMs = 48 * 3_600_000;
  const output = await cache.addFile(await fileOf(2 * MiB), signal);
  await got(output);
  expect(store.file(orphan.id)).not.toBeNull();
  expect(disk.shareOf('models')).toBe(MiB);
  expect(await readdir(join(store.directory, 'known'))).toEqual([]);
});

test('of the store of a controller the controller gives the room, or says why there is none', async () => {
  const asked: number[] = [];
  const reasons = [{ code: 'quota', message: 'room' }];
  let heldBytes = 0;
  const room = async (bytes: number): Promise<() => void> => {
    asked.push(bytes);
    if (bytes > 4 * MiB)
      throw new CoveyError('artifact_quota', 'This needs more than there is.', { reasons });
    heldBytes += bytes;
    return () => void (heldBytes -= bytes);
  };
  await open({ room });
  await cache.addFile(await fileOf(2 * MiB), signal);
  const input = await theirFile(3 * MiB);
  await got(input);
  expect(asked).toEqual([2 * MiB, 3 * MiB]);
  expect(heldBytes).toBe(0);
  const tooLarge = await fileOf(5 * MiB);
  await expect(cache.addFile(tooLarge, signal)).rejects.toMatchObject({
    code: 'disk_full',
    message: 'This needs more than there is.',
    details: { reasons },
  });
  expect(await readdir(join(store.directory, 'incoming'))).toEqual([]);
  expect(store.usedBytes).toBe(5 * MiB);
});

test('an index entry that was half written is forgotten', async () => {
  const known = join(store.directory, 'known');
  await mkdir(known, { recursive: true });
  const output = await cache.addFile(await fileOf(10), signal);
  await writeFile(join(known, `${output.id}.json.0123.tmp`), JSON.stringify({ id: output.id }));
  await open();
  expect(await readdir(known)).toEqual([`${output.id}.json`]);
});
