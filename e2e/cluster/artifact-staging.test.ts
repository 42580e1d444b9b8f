import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ArtifactId, JobId } from '#shared/lib/ids.ts';
import { startArtifactMachines, type ArtifactMachines } from '../support/artifact-machines.ts';

/** Artifacts between machines: real transport and hashing processes, TLS, SQLite. */
const MiB = 1024 * 1024;
const { signal } = new AbortController();
const job = 'j-00000001' as JobId;
let directory: string;
let machines: ArtifactMachines;
beforeEach(async () => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'covey-staging-'));
  machines = await startArtifactMachines(directory, 3, { graceMs: 500 });
});
afterEach(async () => {
  await machines.close();
  rmSync(directory, { recursive: true, force: true });
});

const worker = (index: number) => machines.workers[index] as ArtifactMachines['workers'][number];
const soon = { timeout: 10_000, interval: 50 };

test('an input reaches all machines, also from each other, and an output comes back', async () => {
  const { controller } = machines;
  const content = randomBytes(21 * MiB + 5);
  const stake = await controller.addBytes(content, 'input');
  const first = await worker(0).cache.ensure(stake, signal);
  expect(readFileSync(first.path).equals(content)).toBe(true);
  await expect.poll(() => controller.holders(stake.id), soon).toEqual([worker(0).nodeId]);
  // The controller's copy is out of reach: the machine that has it serves the others.
  const rest = await Promise.all([
    worker(1).cache.ensure(stake, signal),
    worker(2).cache.ensure(stake, signal),
  ]);
  for (const held of rest) expect(readFileSync(held.path).equals(content)).toBe(true);

  const output = path.join(directory, 'output');
  writeFileSync(output, randomBytes(6 * MiB));
  const made = await worker(1).cache.addFile(output, signal);
  await controller.fetch(made, 'result', worker(1).nodeId, signal);
  expect((await controller.readValue(made.id, 8 * MiB)).equals(readFileSync(output))).toBe(true);
  expect(controller.resolve('result')).toEqual(made);
  const joined = await controller.concatenate([made.id, stake.id], 'both', signal);
  expect(joined.bytes).toBe(made.bytes + stake.bytes);
});

test('a folder is put where a program finds it, and its outputs become a tree', async () => {
  const { controller } = machines;
  const folder = path.join(directory, 'folder');
  mkdirSync(path.join(folder, 'deep'), { recursive: true });
  for (let index = 0; index < 50; index += 1) writeFileSync(path.join(folder, `f${index}`), `file ${index}`);
  writeFileSync(path.join(folder, 'deep', 'large'), randomBytes(9 * MiB));
  const stake = await worker(0).cache.addTree(folder, signal);
  await controller.fetch(stake, 'folder', worker(0).nodeId, signal);
  const target = path.join(directory, 'work');
  await worker(2).cache.materialise(stake, target, signal);
  expect(readdirSync(target)).toHaveLength(51);
  expect(readFileSync(path.join(target, 'deep', 'large')).length).toBe(9 * MiB);
  expect(controller.view(stake.id)).toMatchObject({ kind: 'tree', files: 51, pinned: false });
});

test('a machine that holds the only other copy may go; nobody has it: the reason', async () => {
  const { controller } = machines;
  const file = path.join(directory, 'file');
  writeFileSync(file, randomBytes(MiB));
  const stake = await worker(0).cache.addFile(file, signal);
  worker(0).setConnected(false);
  const stop = new AbortController();
  const asked = controller.fetch(stake, 'lost', worker(0).nodeId, stop.signal);
  setTimeout(() => stop.abort(), 1_500);
  await expect(asked).rejects.toMatchObject({ name: 'CoveyError' });
  worker(0).setConnected(true);
  await controller.fetch(stake, 'found', worker(0).nodeId, signal);
  expect(controller.resolve('found').id).toBe(stake.id);
});

test('what jobs need stays, what they made goes with them after the grace time', async () => {
  const { controller, controllerStore } = machines;
  const needed = await controller.addBytes(randomBytes(1_000), 'needed');
  const made = await controller.addBytes(randomBytes(1_000), 'made');
  const missing = 'f'.repeat(64) as ArtifactId;
  expect(() => controller.addReference(job, [needed.id, missing])).toThrow(/no artifact/);
  expect(controller.view(needed.id).jobs).toEqual([]);
  controller.addReference(job, [needed.id, made.id, made.id]);
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(await controller.collectNow()).toEqual({ removed: 0, freedBytes: 0 });
  controller.dropReferences(job);
  await worker(0).cache.ensure(needed, signal);
  controller.addReference('j-00000002' as JobId, [needed.id]);
  await expect
    .poll(async () => (await controller.collectNow(), controllerStore.file(made.id)), soon)
    .toBeNull();
  expect(controllerStore.file(needed.id)).not.toBeNull();
  expect(() => controller.resolve('made')).toThrow(/There is no artifact/);
});

test('the cache stays within what the owner lends, and drops what is least needed', async () => {
  const { controller } = machines;
  const { cache, store } = worker(0);
  worker(0).quotaBytes = 10 * MiB;
  const stakes = [];
  for (const name of ['a', 'b', 'c']) stakes.push(await controller.addBytes(randomBytes(4 * MiB), name));
  const [a, b, c] = stakes as [(typeof stakes)[0], (typeof stakes)[0], (typeof stakes)[0]];
  const held = await cache.ensure(a, signal);
  (await cache.ensure(b, signal)).release();
  (await cache.ensure(c, signal)).release();
  expect([a, b, c].map(({ id }) => store.file(id) !== null)).toEqual([true, false, true]);
  await expect.poll(() => controller.holders(b.id), soon).toEqual([]);
  const large = await controller.addBytes(randomBytes(9 * MiB), 'large');
  await expect(cache.ensure(large, signal)).rejects.toMatchObject({ code: 'disk_full' });
  held.release();
  (await cache.ensure(large, signal)).release();
  expect(store.usedBytes).toBeLessThanOrEqual(10 * MiB);
  // Outputs that the controller has not fetched are never dropped.
  worker(0).quotaBytes = 4 * MiB;
  const file = path.join(directory, 'output');
  writeFileSync(file, randomBytes(4 * MiB));
  const output = await cache.addFile(file, signal);
  await expect(cache.ensure(a, signal)).rejects.toMatchObject({ code: 'disk_full' });
  await controller.fetch(output, 'output', worker(0).nodeId, signal);
  await expect
    .poll(
      async () =>
        cache.ensure(a, signal).then(
          () => true,
          () => false,
        ),
      soon,
    )
    .toBe(true);
});
