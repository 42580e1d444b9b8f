import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, open, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { createChildProcessHost } from '../process-host/child-process-host.ts';
import { entries } from '../entries.ts';
import { digestFile } from './digest.ts';
import { createHasher, type Hasher } from './hasher.ts';
import { materialise } from './materialise.ts';
import { openArtifactStore, type ArtifactStore } from './store.ts';
import { takeInFile, takeInTree } from './take-in.ts';

const { signal } = new AbortController();
let directory: string;
let hasher: Hasher;
let store: ArtifactStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-store-'));
  hasher = createHasher(createChildProcessHost(entries));
  store = await openArtifactStore(join(directory, 'artifacts'));
});
afterEach(async () => {
  hasher.close();
  await rm(directory, { recursive: true, force: true });
});

const hashOf = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');
const MiB = 1024 * 1024;

test.each([0, 1, ARTIFACT_CHUNK_BYTES - 1, ARTIFACT_CHUNK_BYTES, ARTIFACT_CHUNK_BYTES + 1, 19 * MiB + 7])(
  'a file of %i bytes has the digests of its whole and of its chunks',
  async (bytes) => {
    const content = randomBytes(bytes);
    const path = join(directory, 'file');
    await writeFile(path, content);
    const expected = {
      bytes,
      sha256: hashOf(content),
      chunks: Array.from({ length: Math.ceil(bytes / ARTIFACT_CHUNK_BYTES) }, (_, index) =>
        hashOf(content.subarray(index * ARTIFACT_CHUNK_BYTES, (index + 1) * ARTIFACT_CHUNK_BYTES)),
      ),
    };
    expect(await digestFile(path)).toEqual(expected);
    expect((await hasher.digest([path], signal))[0]).toEqual(expected);
  },
);

test('a stored file is found again by a store that opens the same directory, with its chunks', async () => {
  const content = randomBytes(9 * MiB);
  const path = join(directory, 'file');
  await writeFile(path, content, { mode: 0o400 });
  const stake = await takeInFile(store, hasher, path, signal);
  expect(stake).toEqual({ id: hashOf(content), kind: 'file', bytes: content.length });
  const again = await openArtifactStore(join(directory, 'artifacts'));
  expect(again.usedBytes).toBe(content.length);
  expect((await readFile(again.filePath(stake.id))).equals(content)).toBe(true);
  const chunks = await again.chunkList(stake.id);
  expect(chunks).toHaveLength(3);
  expect(again.chunks.find(chunks[2] as ArtifactId)).toEqual({
    path: again.filePath(stake.id),
    offset: 2 * ARTIFACT_CHUNK_BYTES,
    bytes: MiB,
  });
  expect(await readdir(join(directory, 'artifacts', 'incoming'))).toEqual([]);
});

test('a file that goes and comes at once is whole afterwards, with its chunks', async () => {
  const content = randomBytes(9 * MiB);
  const path = join(directory, 'file');
  await writeFile(path, content);
  const { id } = await takeInFile(store, hasher, path, signal);
  const [digest] = await hasher.digest([path], signal);
  for (let round = 0; round < 10; round += 1) {
    const copy = join(await store.incoming(), 'copy');
    await writeFile(copy, content);
    const removed = store.removeFile(id);
    const adopted = store.adopt(copy, id, content.length, digest?.chunks ?? []);
    expect(await removed).toBe(content.length);
    await adopted;
    expect((await readFile(store.filePath(id))).length).toBe(content.length);
    expect(await store.chunkList(id)).toHaveLength(3);
    expect(store.usedBytes).toBe(content.length);
  }
});

test('what was being written when the program ended goes, what can be gone on with stays until it is old', async () => {
  await store.incoming();
  await writeFile(join(await store.incoming(`fetch-${'a'.repeat(64)}`), 'data'), randomBytes(8_192));
  await writeFile(join(await store.incoming('upload-1'), 'data'), randomBytes(4_096));
  const incoming = join(directory, 'artifacts', 'incoming');
  const again = await openArtifactStore(join(directory, 'artifacts'));
  expect((await readdir(incoming)).sort()).toEqual([`fetch-${'a'.repeat(64)}`, 'upload-1']);
  expect(await again.sweepIncoming(() => true, 60_000)).toBeGreaterThanOrEqual(12_288);
  expect(await again.sweepIncoming((name) => name !== 'upload-1', -60_000)).toBe(0);
  expect(await readdir(incoming)).toEqual(['upload-1']);
});

test('a tree has one id wherever it is made, and comes out as it went in', async () => {
  const tree = join(directory, 'tree');
  await mkdir(join(tree, 'b', 'empty'), { recursive: true });
  await writeFile(join(tree, 'b', 'run'), 'program');
  await chmod(join(tree, 'b', 'run'), 0o755);
  await writeFile(join(tree, 'a.txt'), 'text');
  const stake = await takeInTree(store, hasher, tree, signal);
  expect(stake.bytes).toBe(11);
  const out = join(directory, 'out');
  await materialise(store, stake, out, signal);
  expect(await readFile(join(out, 'b', 'run'), 'utf8')).toBe('program');
  expect(await readdir(join(out, 'b'))).toEqual(['empty', 'run']);
  // Written to: the stored file is another one.
  await writeFile(join(out, 'a.txt'), 'changed');
  const other = join(directory, 'other');
  await materialise(store, stake, other, signal);
  expect(await readFile(join(other, 'a.txt'), 'utf8')).toBe('text');
  expect(await takeInTree(store, hasher, other, signal)).toEqual(stake);
  await expect(materialise(store, stake, other, signal)).rejects.toMatchObject({ code: 'artifact_invalid' });
});

test('links and names that are not safe everywhere are refused by name', async () => {
  const tree = join(directory, 'tree');
  await mkdir(tree);
  await symlink('/etc/passwd', join(tree, 'link'));
  await expect(takeInTree(store, hasher, tree, signal)).rejects.toThrow(/"link" is a link/);
  await expect(takeInFile(store, hasher, join(tree, 'link'), signal)).rejects.toThrow(/no regular file/);
  await rm(join(tree, 'link'));
  await writeFile(join(tree, 'a:b'), '');
  await expect(takeInTree(store, hasher, tree, signal)).rejects.toThrow(
    /"a:b" has a : in its name, .* no tree may have it/,
  );
  expect(store.usedBytes).toBe(0);
});

test('a growing file is hashed as it comes', async () => {
  const content = randomBytes(6 * MiB);
  const path = join(directory, 'growing');
  const file = await open(path, 'w');
  const follower = hasher.follow(path);
  for (let at = 0; at < content.length; at += MiB) {
    await file.write(content, at, MiB, at);
    follower.advance(at + MiB);
  }
  await file.close();
  expect(await follower.finish(content.length, signal)).toBe(hashOf(content));
  const short = hasher.follow(path);
  await expect(short.finish(content.length + 1, signal)).rejects.toMatchObject({ code: 'artifact_corrupt' });
});

test('chunks are copied only where they still are what they should be', async () => {
  const content = randomBytes(8 * MiB);
  const path = join(directory, 'file');
  await writeFile(path, content);
  const stake = await takeInFile(store, hasher, path, signal);
  const chunks = await store.chunkList(stake.id);
  const stored = store.filePath(stake.id);
  await chmod(stored, 0o600);
  const file = await open(stored, 'r+');
  await file.write(Buffer.from('damage'), 0, 6, ARTIFACT_CHUNK_BYTES + 5);
  await file.close();
  const target = join(directory, 'target');
  await writeFile(target, '');
  const failed = await hasher.copy(
    chunks.map((sha256, index) => ({
      sha256,
      bytes: ARTIFACT_CHUNK_BYTES,
      from: { path: stored, offset: index * ARTIFACT_CHUNK_BYTES },
      to: { path: target, offset: index * ARTIFACT_CHUNK_BYTES },
    })),
    signal,
  );
  expect(failed).toEqual([1]);
  expect((await readFile(target)).equals(content.subarray(0, ARTIFACT_CHUNK_BYTES))).toBe(true);
  expect(await hasher.compare(stored, content.length, chunks, signal)).toEqual([1]);
});

test('a hashing process that dies fails what it was at, and the next order starts another', async () => {
  const path = join(directory, 'file');
  await writeFile(path, randomBytes(MiB));
  const pids: number[] = [];
  const host = createChildProcessHost(entries);
  const watched = createHasher({
    fork(entry, options) {
      const child = host.fork(entry, options);
      if (child.pid !== undefined) pids.push(child.pid);
      return child;
    },
  });
  try {
    const first = watched.digest(
      Array.from({ length: 2_000 }, () => path),
      signal,
    );
    process.kill(pids[0] as number, 'SIGKILL');
    await expect(first).rejects.toThrow(/hashing process/);
    expect(await watched.digest([path], signal)).toHaveLength(1);
    expect(pids).toHaveLength(2);
  } finally {
    watched.close();
  }
});
