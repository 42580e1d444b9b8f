import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { artifactListQuerySchema } from '#shared/api/jobs.ts';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import type { ArtifactId, JobId, NodeId } from '#shared/lib/ids.ts';
import { sha256 } from '../../nodejs/artifacts/digest.ts';
import { createHasher, type Hasher } from '../../nodejs/artifacts/hasher.ts';
import { openArtifactStore, type ArtifactStore } from '../../nodejs/artifacts/store.ts';
import { takeInTree } from '../../nodejs/artifacts/take-in.ts';
import { entries } from '../../nodejs/entries.ts';
import { createChildProcessHost } from '../../nodejs/process-host/child-process-host.ts';
import { silentLogger } from '../../nodejs/transport/fixtures.ts';
import { createArtifactRecordStore } from '../state/sqlite/artifact-store.ts';
import { openDatabase, type Connection } from '../state/sqlite/database.ts';
import { createArtifactService, type ArtifactService } from './artifact-service.ts';
import type { UploadBody } from './uploads.ts';

const { signal } = new AbortController();
const MiB = 1024 * 1024;
const graceMs = 3_600_000;
const job = 'j-00000001' as JobId;
let directory: string;
let store: ArtifactStore;
let hasher: Hasher;
let connection: Connection;
let service: ArtifactService;
let quotaBytes: number | null;
/** How far the clock is ahead of the real one. */
let aheadMs: number;
let jobs: Set<JobId>;
/** Of the one job that there is. */
let results: Map<ArtifactId, string>;

const open = (of: ArtifactStore = store): void => {
  connection = openDatabase(join(directory, 'covey.db'));
  hasher = createHasher(createChildProcessHost(entries));
  service = createArtifactService({
    store: of,
    hasher,
    records: createArtifactRecordStore(connection),
    transport: {
      readArtifact: () => Promise.reject(new Error('nobody is there')),
      addArtifactGrant: () => undefined,
    },
    self: { nodeId: 'a'.repeat(64) as NodeId, name: 'controller', addresses: () => [] },
    send: () => false,
    broadcast: () => undefined,
    member: () => null,
    rttMs: () => null,
    quotaBytes: () => quotaBytes,
    job: (id) =>
      jobs.has(id)
        ? { name: 'render', isInput: () => false, resultName: (artifact) => results.get(artifact) }
        : null,
    clock: { now: () => Date.now() + aheadMs },
    logger: silentLogger,
    graceMs,
  });
};
const close = (): void => {
  service.close();
  connection.close();
};
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-artifacts-'));
  store = await openArtifactStore(join(directory, 'artifacts'), () => Date.now() + aheadMs);
  quotaBytes = null;
  aheadMs = 0;
  jobs = new Set();
  results = new Map();
  open();
});
afterEach(async () => {
  close();
  await rm(directory, { recursive: true, force: true });
});

function bodyOf(files: Readonly<Record<string, Buffer>>, name = 'tree'): UploadBody {
  return {
    kind: 'tree',
    name,
    directories: [],
    files: Object.entries(files).map(([path, content]) => ({
      path,
      executable: false,
      bytes: content.length,
      sha256: sha256(content),
      chunks: Array.from({ length: Math.ceil(content.length / ARTIFACT_CHUNK_BYTES) }, (_, index) =>
        sha256(content.subarray(index * ARTIFACT_CHUNK_BYTES, (index + 1) * ARTIFACT_CHUNK_BYTES)),
      ),
    })),
  };
}

async function send(id: string, needed: readonly ArtifactId[], files: Iterable<Buffer>): Promise<void> {
  for (const content of files)
    for (let at = 0; at < content.length; at += ARTIFACT_CHUNK_BYTES) {
      const chunk = content.subarray(at, at + ARTIFACT_CHUNK_BYTES);
      if (needed.includes(sha256(chunk))) await service.putChunk(id, sha256(chunk), [chunk]);
    }
}

async function put(files: Readonly<Record<string, Buffer>>, name?: string): Promise<ArtifactId> {
  const { id, needed } = await service.startUpload(bodyOf(files, name));
  await send(id, needed, Object.values(files));
  return (await service.finishUpload(id, signal)).id;
}

const list = () => service.list(artifactListQuerySchema.parse({}));
const refusal = (work: Promise<unknown>): Promise<{ code: string; message: string }> =>
  work.then(
    () => ({ code: 'none', message: '' }),
    (error: unknown) => error as { code: string; message: string },
  );

describe('the quota', () => {
  test('is the one of now, and says what is lacking', async () => {
    const { id } = await service.addBytes(randomBytes(3 * MiB), 'first');
    service.addReference(job, [id]);
    quotaBytes = 4 * MiB;
    expect((await list()).quotaBytes).toBe(4 * MiB);
    const refused = await refusal(service.addBytes(randomBytes(2 * MiB), 'second'));
    expect(refused).toMatchObject({ code: 'artifact_quota' });
    expect(refused.message).toMatch(/needs 2 MiB of the controller's store, which has room for 1 MiB/);
    quotaBytes = 8 * MiB;
    await service.addBytes(randomBytes(2 * MiB), 'second');
  });

  test('holds for what tasks of the same machine make in the store, and counts what they have asked for', async () => {
    quotaBytes = 4 * MiB;
    const release = await service.room(3 * MiB);
    expect(await refusal(service.room(2 * MiB))).toMatchObject({
      code: 'artifact_quota',
      message: expect.stringContaining("needs 2 MiB of the controller's store, which has room for 1 MiB"),
    });
    release();
    release();
    (await service.room(4 * MiB))();
    expect(await refusal(service.room(5 * MiB))).toMatchObject({ code: 'artifact_quota' });
  });

  test('counts what is only announced, so that two who come at once cannot both have the last of it', async () => {
    quotaBytes = 10 * MiB;
    const outcomes = await Promise.allSettled([
      service.startUpload(bodyOf({ a: randomBytes(6 * MiB) }, 'one')),
      service.startUpload(bodyOf({ a: randomBytes(6 * MiB) }, 'two')),
      service.addBytes(randomBytes(5 * MiB), 'three'),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(await refusal(service.startUpload(bodyOf({ b: randomBytes(6 * MiB) })))).toMatchObject({
      code: 'artifact_quota',
    });
    // An upload that nobody goes on with gives way.
    aheadMs = 2 * 3_600_000;
    await service.startUpload(bodyOf({ b: randomBytes(6 * MiB) }));
  });

  test('is kept by what nothing needs, one after the other until there is room', async () => {
    quotaBytes = 10 * MiB;
    const shared = randomBytes(3 * MiB);
    await put({ shared, own: randomBytes(MiB) }, 'one');
    await put({ shared, other: randomBytes(MiB) }, 'two');
    const kept = await put({ kept: randomBytes(MiB) }, 'kept');
    service.remove('one');
    service.remove('two');
    // The first of them alone frees less than its size: the second has the same file.
    await service.addBytes(randomBytes(8 * MiB), 'large');
    expect((await list()).artifacts.map(({ name }) => name).sort()).toEqual(['kept', 'large']);
    expect(await service.open(kept)).toMatchObject({ row: { name: 'kept' } });
  });
});

describe('references', () => {
  test('of jobs that were never recorded end with the next start', async () => {
    const known = 'j-00000002' as JobId;
    const { id } = await service.addBytes(randomBytes(100), 'input');
    service.addReference(job, [id]);
    service.addReference(known, [id]);
    close();
    jobs = new Set([known]);
    open();
    expect(service.view(id)).toMatchObject({ jobs: [known], collectableAt: null });
    close();
    jobs = new Set();
    open();
    expect(service.view(id).jobs).toEqual([]);
    expect(service.view(id).collectableAt).toBeGreaterThan(Date.now());
    aheadMs = 2 * graceMs;
    expect(await service.collectNow()).toEqual({ removed: 1, freedBytes: 100 });
  });
});

describe('collecting', () => {
  test('leaves what is being made: a tree of a task that is not fetched yet, and files that it has in common', async () => {
    const old = randomBytes(1_000);
    await writeFile(join(directory, 'old'), old);
    const gone = await service.addBytes(old, 'gone');
    const folder = await mkdtemp(join(directory, 'tree-'));
    await writeFile(join(folder, 'a'), old);
    await writeFile(join(folder, 'b'), 'new');
    const tree = await takeInTree(store, hasher, folder, signal);
    await service.collectNow();
    expect(await store.tree(tree.id)).not.toBeNull();
    await service.fetch(tree, 'output', 'b'.repeat(64) as NodeId, signal);
    service.addReference(job, [tree.id]);
    aheadMs = 2 * graceMs;
    expect((await service.collectNow()).removed).toBe(1);
    expect(() => service.resolve(gone.id)).toThrow(/no artifact/);
    expect((await service.open(tree.id)).manifest?.entries).toHaveLength(2);
  });

  test('and putting the same again at once leave a whole artifact', async () => {
    const files = { a: randomBytes(5 * MiB), b: randomBytes(1_000), c: randomBytes(1_000) };
    const id = await put(files);
    for (let round = 0; round < 5; round += 1) {
      service.remove(id);
      aheadMs += 2 * graceMs;
      const [, second] = await Promise.allSettled([service.collectNow(), put(files)]);
      // It may have to be begun again; it may not look whole and not be.
      if (second.status === 'rejected') {
        expect(second.reason).toMatchObject({ code: 'upload_incomplete' });
        await put(files);
      }
      expect((await service.open(id)).manifest?.entries).toHaveLength(3);
      expect(await store.chunkList(sha256(files.a))).toHaveLength(2);
    }
  });

  test('takes nothing that is left in `incoming` and still in use', async () => {
    const content = randomBytes(9 * MiB);
    const { id, needed } = await service.startUpload(bodyOf({ a: content }));
    await send(id, needed.slice(0, 2), [content]);
    await service.collectNow();
    await send(id, needed, [content]);
    expect(await service.finishUpload(id, signal)).toMatchObject({ kind: 'tree', bytes: content.length });
  });
});

test('results of jobs are listed with their job, what is partial only when it is asked for', async () => {
  const known = 'j-1a2b3c4d' as JobId;
  jobs.add(known);
  const uploaded = await put({ a: randomBytes(10) }, 'tool');
  const [result, part] = await Promise.all([
    service.addBytes(randomBytes(20), 'frame.png'),
    service.addBytes(randomBytes(30), 'output'),
  ]);
  service.addReference(known, [result.id, part.id]);
  results.set(result.id, '3/frame.png');
  const { artifacts, leftOut, total } = await service.list(
    artifactListQuerySchema.parse({ partial: '0', sort: 'name', descending: '0' }),
  );
  expect(artifacts.map(({ id, resultOf }) => ({ id, resultOf }))).toEqual([
    { id: result.id, resultOf: { jobId: known, jobName: 'render', name: '3/frame.png' } },
    { id: uploaded, resultOf: undefined },
  ]);
  expect([leftOut, total]).toEqual([{ count: 1, bytes: 30 }, 2]);
  const all = await service.list(artifactListQuerySchema.parse({}));
  expect([all.artifacts.length, all.leftOut]).toEqual([3, undefined]);
  const found = await service.list(artifactListQuerySchema.parse({ text: 'RENDER/3' }));
  expect(found.artifacts.map(({ id }) => id)).toEqual([result.id]);
  expect(service.resolve('render/3/frame.png').id).toBe(result.id);
  expect(service.resolve('frame.png').id).toBe(result.id);
  expect(() => service.resolve('render/4/frame.png')).toThrow(/There is no artifact/);
  results.set(part.id, '3/frame.png');
  expect(() => service.resolve('render/3/frame.png')).toThrow(
    new RegExp(`2 artifacts are .*name one by its id \\(.*${part.id.slice(0, 12)}`),
  );
});

describe('uploads', () => {
  test('of the same content that begin at once are one', async () => {
    const files = { a: randomBytes(9 * MiB) };
    const [first, second] = await Promise.all([
      service.startUpload(bodyOf(files)),
      service.startUpload(bodyOf(files)),
    ]);
    expect(second).toMatchObject({ id: first.id, needed: first.needed });
    await send(first.id, first.needed, Object.values(files));
    const both = await Promise.all([
      service.finishUpload(first.id, signal),
      service.finishUpload(second.id, signal),
    ]);
    expect(both[0]).toEqual(both[1]);
    expect(both[0]).toMatchObject({ pinned: true, files: 1 });
  });

  test('that could not be finished for want of room are finished when there is some', async () => {
    close();
    let full = true;
    const failing = Object.assign(Object.create(store) as ArtifactStore, {
      async adopt(...args: Parameters<ArtifactStore['adopt']>) {
        if (full && args[2] > 1_500)
          throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
        await store.adopt(...args);
      },
    });
    open(failing);
    const files = { a: randomBytes(1_000), b: randomBytes(1_000), c: randomBytes(2_000) };
    const { id, needed } = await service.startUpload(bodyOf(files));
    await send(id, needed, Object.values(files));
    expect(await refusal(service.finishUpload(id, signal))).toMatchObject({ code: 'disk_full' });
    expect((await list()).artifacts).toEqual([]);
    full = false;
    expect(await service.finishUpload(id, signal)).toMatchObject({ bytes: 4_000, files: 3 });
  });

  test('whose files went meanwhile are begun again', async () => {
    const files = { a: randomBytes(1_000), b: randomBytes(1_000) };
    const first = await put({ a: files.a });
    const { id, needed } = await service.startUpload(bodyOf(files, 'both'));
    expect(needed).toEqual([sha256(files.b)]);
    await send(id, needed, [files.b]);
    await store.removeFile(sha256(files.a));
    expect(await refusal(service.finishUpload(id, signal))).toMatchObject({ code: 'upload_incomplete' });
    expect(await refusal(service.open(first))).toMatchObject({ code: 'artifact_corrupt' });
    await put(files, 'both');
    expect((await service.open('both')).manifest?.entries).toHaveLength(2);
    expect((await service.open(first)).manifest?.entries).toHaveLength(1);
  });
});
