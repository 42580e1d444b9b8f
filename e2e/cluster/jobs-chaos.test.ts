import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createRandom } from '../fuzz/random.ts';
import { strike } from '../support/chaos.ts';
import { startJobMachines, type JobMachines } from '../support/job-machines.ts';
import { storedPartitions } from '../support/job-records.ts';
import { generateDataset, sumI64, writeNumbers } from '../support/kernel-reference.ts';
import { sha256Of } from '../support/sha256.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Whatever is killed or stopped while jobs run: they finish, and each of their partitions has exactly one accepted
 * result. COVEY_CHAOS_MS says for how long (npm run test:soak: three minutes), COVEY_CHAOS_SEED repeats another run.
 */
const cluster = useCluster();
const chaosMs = Number(process.env['COVEY_CHAOS_MS'] ?? 30_000);
const seed = Number(process.env['COVEY_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const partitions = 200;
const mark = `chaos-mark-${process.pid}`;
/** Six run at once: undisturbed they would last half as long as the blows. */
const meanMs = (chaosMs * 3) / partitions;
/** For all of it to be done after the blows, and some more. */
const afterMs = chaosMs + 90_000;

test(
  `workers, hosts and the controller are killed and stopped for ${chaosMs / 1_000} s, seed ${seed}`,
  async () => {
    const random = createRandom(seed);
    const machines = await startJobMachines(cluster.current, ['anna', 'ben', 'cleo']);
    const folder = path.join(cluster.current.directory, 'chaos-input');
    mkdirSync(path.join(folder, 'seconds'), { recursive: true });
    for (let index = 0; index < partitions; index += 1) {
      const seconds = (meanMs * (0.1 + random.int(1_800) / 1_000)) / 1_000;
      writeFileSync(path.join(folder, 'seconds', String(index)), seconds.toFixed(3));
    }
    const { id } = await machines.submit({
      kind: 'command',
      name: 'chaos',
      script: 'sleep "$(cat "in/seconds/$COVEY_INDEX")"; echo "$COVEY_INDEX" > "$COVEY_OUTPUT/out"',
      interpreter: ['/bin/sh', '-c', `. "$0"; : ${mark}`],
      inputs: [{ artifact: await machines.put(folder), path: 'in' }],
      outputs: [{ path: 'out' }],
      partitions,
    });
    await machines.until('to begin', id, ({ partitions: { done } }) => done > 0);

    const ending = new AbortController();
    const kernels = runKernels(machines, ending.signal);
    const blows = await strike(machines, random, chaosMs).finally(() => ending.abort());
    const story = blows.map(({ atMs, what }) => `${atMs} ms: ${what}`).join('\n');
    console.log(`seed ${seed}\n${story}`);
    const view = await machines.finished(id, afterMs);
    const kernelJobs = await kernels;

    expect(view, story).toMatchObject({
      status: 'done',
      error: null,
      partitions: { total: partitions, done: partitions, failed: 0, waiting: 0, running: 0 },
      result: { missing: 0 },
    });
    expect(view.shares.map(({ running }) => running)).toEqual([0, 0, 0]);
    // One result each, and the right one.
    expect(view.result?.artifacts.map(({ name, id: hash }) => [name, hash])).toEqual(
      Array.from({ length: partitions }, (_value, index) => [`${index}/out`, sha256Of(`${index}\n`)]),
    );
    for (const job of [id, ...kernelJobs]) expectOneResultEach(machines, job);
    expect(kernelJobs.length).toBeGreaterThan(0);
    await machines.expectIdle(mark);
  },
  chaosMs + afterMs + 240_000,
);

/** On disk: each partition is done by one attempt, no epoch was given twice, and nothing is under way. */
function expectOneResultEach(machines: JobMachines, jobId: string): void {
  const stored = storedPartitions(machines.controller().dataDirectory, jobId);
  expect(stored.length).toBeGreaterThan(0);
  for (const { index, phase, epoch, tasks, hasResult } of stored) {
    const outcomes = tasks.map(({ outcome }) => outcome);
    const epochs = tasks.map((task) => task.epoch);
    const what = `${jobId} partition ${index}: ${outcomes.join(' ')}`;
    expect({ phase, hasResult }, what).toEqual({ phase: 'done', hasResult: true });
    expect(
      outcomes.filter((outcome) => outcome === 'done'),
      what,
    ).toHaveLength(1);
    expect(outcomes, what).not.toContain('running');
    expect(new Set(epochs).size, what).toBe(epochs.length);
    expect(Math.max(...epochs), what).toBe(epoch);
  }
}

/** Sums of 16 MiB in 200 partitions, one job after the other; each has to come out right. */
async function runKernels(machines: JobMachines, signal: AbortSignal): Promise<string[]> {
  const { words } = generateDataset(16 * 2 ** 20, 5);
  const file = path.join(cluster.current.directory, 'words.bin');
  writeNumbers(file, words);
  const expected = String(sumI64(words));
  const input = await insist('the numbers to be put', () => machines.put(file));
  const ids: string[] = [];
  while (!signal.aborted) {
    const { id } = await insist('a kernel job to be taken', () =>
      machines.submit({
        ...{ kind: 'kernel', kernel: 'sum', type: 'i64' },
        ...{ input, partitions: 200, priority: 10, name: 'sum in chaos' },
      }),
    );
    const view = await machines.finished(id, chaosMs + afterMs);
    expect(view, JSON.stringify(view.error)).toMatchObject({ status: 'done', partitions: { done: 200 } });
    expect(view.result?.value).toBe(expected);
    ids.push(id);
    await delay(500);
  }
  return ids;
}

/** The controller may be away. */
function insist<T extends object | string>(what: string, call: () => Promise<T>): Promise<T> {
  return waitFor(what, call, 120_000, 250);
}
