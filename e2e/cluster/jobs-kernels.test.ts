import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { JobView } from '#shared/domain/job.ts';
import { startJobMachines, type JobMachines } from '../support/job-machines.ts';
import {
  boundOf,
  dotF64,
  generateDataset,
  squaresI32,
  sumF64,
  sumI64,
  writeNumbers,
  xorU64,
} from '../support/kernel-reference.ts';
import { useCluster } from '../support/use-cluster.ts';

/**
 * Kernels over numbers on three real workers, each against what one loop in this process makes of them, whatever the
 * distribution. Covey's sums of doubles are rounded once, so that they do not depend on it at all.
 */
const cluster = useCluster('file');
/** Of each of the three inputs; COVEY_KERNEL_BYTES sets it. */
const inputBytes = Number(process.env['COVEY_KERNEL_BYTES'] ?? 64 * 2 ** 20);
const seed = 20_261_130;
/** The first job that needs an input brings it to all machines. */
const jobMs = 60_000 + inputBytes / 5_000;
const setupMs = 60_000 + inputBytes / 2_000;
let machines: JobMachines;
const inputs = { words: '', left: '', right: '' };
const references = { sum: '', xor: '', squares: '', doubles: [0, 0], dot: [0, 0] };

beforeAll(async () => {
  machines = await startJobMachines(cluster.current, ['anna', 'ben', 'cleo']);
  const dataset = generateDataset(inputBytes, seed);
  for (const name of ['words', 'left', 'right'] as const) {
    const file = path.join(cluster.current.directory, `${name}.bin`);
    writeNumbers(file, dataset[name]);
    inputs[name] = await machines.put(file);
  }
  const { words, left, right } = dataset;
  references.sum = String(sumI64(words));
  references.xor = String(xorU64(words));
  references.squares = String(squaresI32(words));
  const doubles = sumF64(left);
  references.doubles = [doubles.value, boundOf(doubles)];
  const dot = dotF64(left, right);
  references.dot = [dot.value, boundOf(dot)];
}, setupMs);

const kernels = [
  { kernel: 'sum', type: 'i64', input: 'words', second: null, reference: 'sum' },
  { kernel: 'xor', type: 'u64', input: 'words', second: null, reference: 'xor' },
  { kernel: 'dot_product', type: 'i32', input: 'words', second: 'words', reference: 'squares' },
  { kernel: 'sum', type: 'f64', input: 'left', second: null, reference: 'doubles' },
  { kernel: 'dot_product', type: 'f64', input: 'left', second: 'right', reference: 'dot' },
] as const;
type Kernel = (typeof kernels)[number];

const byHand = (anna: number, ben: number, cleo: number) => ({
  mode: 'manual' as const,
  shares: [
    { node: 'anna', percent: anna },
    { node: 'ben', percent: ben },
    { node: 'cleo', percent: cleo },
  ],
});

function specOf({ kernel, type, input, second }: Kernel) {
  return {
    kind: 'kernel' as const,
    ...{ kernel, type },
    input: inputs[input],
    ...(second === null ? {} : { second: inputs[second] }),
  };
}

/** @returns the value: the same to the last bit however the work was shared */
function check({ reference }: Kernel, view: JobView): unknown {
  expect(view).toMatchObject({
    status: 'done',
    error: null,
    partitions: { failed: 0, waiting: 0, running: 0 },
  });
  expect(view.units.done).toBe(view.units.total);
  const value = view.result?.value;
  const expected = references[reference];
  if (typeof expected === 'string') expect(value).toBe(expected);
  else expect(Math.abs(Number(value) - (expected[0] ?? NaN))).toBeLessThanOrEqual(expected[1] ?? NaN);
  return value;
}

const donePercents = (view: JobView): Record<string, number> =>
  Object.fromEntries(view.shares.map(({ nodeName, donePercent }) => [nodeName, Math.round(donePercent)]));

test.each(kernels)(
  '$kernel of $type: equal to the reference by speed, by hand, and with shares changed while it runs',
  async (kernel) => {
    const auto = await machines.finished((await machines.submit(specOf(kernel))).id, jobMs);
    const value = check(kernel, auto);
    expect(auto.partitions.total).toBeGreaterThan(3);

    const shares = byHand(60, 25, 15);
    const manual = await machines.finished(
      (await machines.submit({ ...specOf(kernel), distribution: shares })).id,
      jobMs,
    );
    expect(check(kernel, manual)).toBe(value);
    expect(donePercents(manual)).toEqual({ anna: 60, ben: 25, cleo: 15 });

    // So many partitions that it runs for seconds.
    const { id } = await machines.submit({ ...specOf(kernel), distribution: shares, partitions: 10_000 });
    for (const [part, changed] of [
      [0.1, byHand(10, 10, 80)],
      [0.3, byHand(1, 98, 1)],
      [0.5, { mode: 'auto' as const }],
    ] as const) {
      await machines.until(
        `to be ${part} done`,
        id,
        ({ units, finishedAt }) => finishedAt !== null || units.done >= part * (units.total ?? Infinity),
        jobMs,
      );
      const view = await machines
        .controller()
        .client.call('setDistribution', { params: { job: id }, body: changed });
      expect(view).toMatchObject({ status: 'running', distribution: changed.mode });
    }
    const changed = await machines.finished(id, jobMs);
    expect(check(kernel, changed)).toBe(value);
    // Cleo had a small share but for a while: the changes took effect.
    expect(donePercents(changed)['cleo']).toBeGreaterThan(15);
    await machines.controller().client.call('removeJob', { params: { job: id } });
  },
  3 * jobMs,
);
