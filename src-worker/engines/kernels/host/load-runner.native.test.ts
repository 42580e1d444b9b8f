import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { KernelWork } from '#shared/host/kernel-host.ts';
import type { JobId } from '#shared/lib/ids.ts';
import { engineDirectory } from '../../../../e2e/support/checkout.ts';
import { loadRunner, type LoadedRunner } from './load-runner.ts';

let loaded: LoadedRunner;
let directory: string;
beforeAll(async () => {
  loaded = await loadRunner(engineDirectory());
  directory = await mkdtemp(join(tmpdir(), 'covey-runner-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const ignore = { threads: 2, signal: new AbortController().signal, onProgress: () => undefined };
const workOf = (input: string, second: string | null = null): KernelWork => ({
  ...{ jobId: 'j-00000001' as JobId, call: { kernel: 'sum', type: 'i32' }, input, second },
});

it('says what it has', () => {
  expect(loaded.kernels).toContain('histogram');
  expect(['scalar', 'avx2', 'avx512', 'neon']).toContain(loaded.isa);
});

it('counts ranges in elements, and refuses those that are not in the input', async () => {
  const input = join(directory, 'input');
  const second = join(directory, 'second');
  await writeFile(input, Int32Array.of(1, 2, 3, 4));
  await writeFile(second, Int32Array.of(5, 6));
  const one = loaded.runner.open(workOf(input));
  expect(await one.run({ kernel: 'sum', type: 'i32' }, 1, 3, ignore)).toMatchObject({
    total: '5',
    elements: 2,
  });
  await expect(one.run({ kernel: 'sum', type: 'i32' }, 3, 5, ignore)).rejects.toMatchObject({
    code: 'dataset_invalid',
  });
  one.close();
  const two = loaded.runner.open(workOf(input, second));
  expect(await two.run({ kernel: 'dot_product', type: 'i32' }, 0, 2, ignore)).toMatchObject({ total: '17' });
  await expect(two.run({ kernel: 'dot_product', type: 'i32' }, 0, 3, ignore)).rejects.toMatchObject({
    code: 'dataset_invalid',
  });
  two.close();
  expect(() => loaded.runner.open(workOf(input, join(directory, 'none')))).toThrow(/cannot be opened/);
});

it('runs on machines with more processors than the library has threads', async () => {
  const input = join(directory, 'wide');
  await writeFile(input, '');
  await truncate(input, 16 * 1024 * 1024);
  const work = loaded.runner.open(workOf(input));
  const call = { kernel: 'sum', type: 'i32' } as const;
  expect(await work.run(call, 0, 4 * 1024 * 1024, { ...ignore, threads: 384 })).toMatchObject({ total: '0' });
  work.close();
});

it('is refused what becomes shorter while it is open, and reads on in other files', async () => {
  const input = join(directory, 'shrinking');
  await writeFile(input, '');
  await truncate(input, 64 * 1024 * 1024);
  const work = loaded.runner.open(workOf(input));
  const call = { kernel: 'sum', type: 'i32' } as const;
  await truncate(input, 4096);
  await expect(work.run(call, 0, 16 * 1024 * 1024, ignore)).rejects.toMatchObject({
    code: 'dataset_invalid',
  });
  work.close();
  const other = join(directory, 'whole');
  await writeFile(other, Int32Array.of(1, 2));
  const whole = loaded.runner.open(workOf(other));
  expect(await whole.run(call, 0, 2, ignore)).toMatchObject({ total: '3' });
  whole.close();
});

it('tells how far it is, and ends when the signal says so', async () => {
  const input = join(directory, 'large');
  await writeFile(input, '');
  await truncate(input, 512 * 1024 * 1024);
  const work = loaded.runner.open(workOf(input));
  const call = { kernel: 'histogram', type: 'u8', bins: 2, low: 0, high: 256 } as const;
  const elements = 512 * 1024 * 1024;
  const fractions: number[] = [];
  const onProgress = (fraction: number): void => void fractions.push(fraction);
  await work.run(call, 0, elements, { ...ignore, threads: 1, onProgress });
  expect(fractions.length).toBeGreaterThan(0);
  expect(fractions.every((fraction) => fraction >= 0 && fraction <= 1)).toBe(true);
  const stopping = new AbortController();
  const run = work.run(call, 0, elements, { ...ignore, signal: stopping.signal });
  stopping.abort();
  await expect(run).rejects.toMatchObject({ code: 'cancelled' });
  await expect(work.run(call, 0, elements, { ...ignore, signal: stopping.signal })).rejects.toMatchObject({
    code: 'cancelled',
  });
  work.close();
});

it('says why there is no library', async () => {
  await expect(loadRunner(null)).rejects.toThrow(/no engine directory/);
  await expect(loadRunner(directory)).rejects.toMatchObject({ code: 'kernels_unavailable' });
});
