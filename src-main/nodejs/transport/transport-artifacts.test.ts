import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ArtifactPart, ArtifactRead } from '#shared/host/transport.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { openArtifactStore, type ArtifactStore } from '../artifacts/store.ts';
import { digestFile } from '../artifacts/digest.ts';
import type { Identity } from '../identity/identity.ts';
import { makeIdentity } from './fixtures.ts';
import { addressOf, createTestbed, memberOf, watchedHost } from './testbed.ts';
import type { Transport } from './transport.ts';

const bed = createTestbed();
let directory: string;
let store: ArtifactStore;
let holder: Transport;
let reader: Transport;
let holderIdentity: Identity;
let readerIdentity: Identity;
const readerHost = watchedHost();
const holderHost = watchedHost();
const token = 'a'.repeat(64);
const { signal } = new AbortController();

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-artifact-'));
  store = await openArtifactStore(join(directory, 'store'));
  [holderIdentity, readerIdentity] = await Promise.all([makeIdentity(), makeIdentity()]);
  holder = await bed.start(holderIdentity, 'worker', {
    processHost: holderHost,
    artifactDirectory: store.directory,
    members: [memberOf(readerIdentity)],
  });
  reader = await bed.start(readerIdentity, 'worker', {
    processHost: readerHost,
    members: [memberOf(holderIdentity)],
  });
});
afterEach(async () => {
  await bed.end();
  await rm(directory, { recursive: true, force: true });
});

async function stored(content: Uint8Array): Promise<ArtifactId> {
  const path = join(await store.incoming(), 'file');
  await writeFile(path, content);
  const { sha256, bytes, chunks } = await digestFile(path);
  await store.adopt(path, sha256, bytes, chunks);
  return sha256;
}

function reading(part: ArtifactPart, path: string, grant = token): ArtifactRead {
  const target = {
    peer: holderIdentity.nodeId,
    peerName: 'holder',
    addresses: [addressOf(holder)],
    timeoutMs: 5_000,
  };
  return { target, grant, part, path };
}

test('parts of a file come in any order, several at once, and are what was stored', async () => {
  const content = randomBytes(13_000_001);
  const file = await stored(content);
  holder.addArtifactGrant({ token, artifact: file, peer: readerIdentity.nodeId, ttlMs: 60_000 });
  const path = join(directory, 'copy');
  await writeFile(path, '');
  const offsets = [9_000_000, 0, 4_500_000];
  await Promise.all(
    offsets.map((offset) =>
      reader.readArtifact(
        reading({ what: 'bytes', file, offset, length: Math.min(4_500_000, content.length - offset) }, path),
        signal,
      ),
    ),
  );
  expect((await readFile(path)).equals(content)).toBe(true);
  await reader.readArtifact(reading({ what: 'chunks', file }, `${path}.chunks`), signal);
  expect((await readFile(`${path}.chunks`)).subarray(0, 32).toString('hex')).toBe(
    createHash('sha256')
      .update(content.subarray(0, 4 * 1024 * 1024))
      .digest('hex'),
  );
});

test('a right that comes after the reader is waited for; it is for one peer, one artifact and its time', async () => {
  const file = await stored(randomBytes(1_000));
  const other = await stored(randomBytes(1_000));
  const path = join(directory, 'copy');
  await writeFile(path, '');
  const bytes = { what: 'bytes', file, offset: 0, length: 1_000 } as const;
  const early = reader.readArtifact(reading(bytes, path), signal);
  holder.addArtifactGrant({ token, artifact: file, peer: readerIdentity.nodeId, ttlMs: 60_000 });
  expect(await early).toBe(1_000);
  await expect(reader.readArtifact(reading({ ...bytes, file: other }, path), signal)).rejects.toMatchObject({
    code: 'artifact_not_found',
  });
  await expect(reader.readArtifact(reading({ ...bytes, length: 1_001 }, path), signal)).rejects.toMatchObject(
    { code: 'artifact_invalid' },
  );
  holder.addArtifactGrant({
    token: 'b'.repeat(64),
    artifact: file,
    peer: holderIdentity.nodeId,
    ttlMs: 60_000,
  });
  await expect(reader.readArtifact(reading(bytes, path, 'b'.repeat(64)), signal)).rejects.toMatchObject({
    code: 'grant_invalid',
  });
  holder.addArtifactGrant({ token: 'c'.repeat(64), artifact: file, peer: readerIdentity.nodeId, ttlMs: 1 });
  await expect(reader.readArtifact(reading(bytes, path, 'c'.repeat(64)), signal)).rejects.toMatchObject({
    code: expect.stringMatching(/^grant_(expired|invalid)$/) as string,
  });
});

test("a tree's manifest and its files may be read, and no other file", async () => {
  const inside = await stored(randomBytes(100));
  const outside = await stored(randomBytes(100));
  const tree = await store.addManifest({
    version: 1,
    entries: [{ type: 'file', path: 'a', bytes: 100, sha256: inside, executable: false }],
  });
  holder.addArtifactGrant({ token, artifact: tree, peer: readerIdentity.nodeId, ttlMs: 60_000 });
  const path = join(directory, 'copy');
  await reader.readArtifact(reading({ what: 'manifest' }, path), signal);
  expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ version: 1, entries: [{ path: 'a' }] });
  const bytes = { what: 'bytes', offset: 0, length: 100 } as const;
  expect(await reader.readArtifact(reading({ ...bytes, file: inside }, path), signal)).toBe(100);
  await expect(reader.readArtifact(reading({ ...bytes, file: outside }, path), signal)).rejects.toMatchObject(
    {
      code: 'artifact_not_found',
    },
  );
});

test('a new transport process of the holder knows the rights, and the reader finds it again', async () => {
  const file = await stored(randomBytes(1_000));
  holder.addArtifactGrant({ token, artifact: file, peer: readerIdentity.nodeId, ttlMs: 60_000 });
  const path = join(directory, 'copy');
  await writeFile(path, '');
  const read = reading({ what: 'bytes', file, offset: 0, length: 1_000 }, path);
  expect(await reader.readArtifact(read, signal)).toBe(1_000);
  holderHost.children.at(-1)?.kill();
  await expect.poll(() => reader.readArtifact(read, signal).catch(() => 0), { timeout: 10_000 }).toBe(1_000);
});

test('the upload limit of the holder holds, and a reader can give up', async () => {
  const file = await stored(randomBytes(4_000_000));
  holder.addArtifactGrant({ token, artifact: file, peer: readerIdentity.nodeId, ttlMs: 60_000 });
  holder.setUploadLimit(2_000_000);
  const path = join(directory, 'copy');
  await writeFile(path, '');
  const startedAt = performance.now();
  await reader.readArtifact(reading({ what: 'bytes', file, offset: 0, length: 3_000_000 }, path), signal);
  expect(performance.now() - startedAt).toBeGreaterThan(1_000);
  const stop = new AbortController();
  const given = reader.readArtifact(
    reading({ what: 'bytes', file, offset: 0, length: 4_000_000 }, path),
    stop.signal,
  );
  setTimeout(() => stop.abort(), 100);
  await expect(given).rejects.toMatchObject({ name: 'CoveyError' });
});
