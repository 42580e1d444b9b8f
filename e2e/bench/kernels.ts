import { mkdtemp, open, rm } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { kernelTypes, type ElementType, type KernelName } from '../../src-main/shared/domain/kernel-call.ts';
import { loadKernelLibrary } from '../../src-worker/engines/kernels/binding.ts';
import { checkout, engineDirectory } from '../support/checkout.ts';
import { numpySide, ourSide, readSide, type Case, type Side } from './kernels-sides.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

/**
 * GB/s of each kernel and type on data larger than the cache, with one thread and with all, against numpy (with
 * OpenBLAS where it uses one) and against this machine's read bandwidth. In each round all sides have their turn within
 * a second, in one order and the next time in the other, and of each the fastest pass counts (as in STREAM: in others
 * the machine did something else besides). Figures are medians over rounds, and ratios are medians of the ratio in
 * each round, so that what slows the whole machine down for a while is in both its parts.
 *
 * `ratio`: the lowest, over sum, xor and dot_product of all their types and both numbers of threads, of ours against
 * numpy and against the bandwidth. `histogramRatio`, `extremesRatio`: the lowest of ours against numpy. Where there is
 * AVX-512: what its code gains over AVX2, with one thread.
 */
const megabytes = 512;
const bytes = megabytes * 1024 * 1024;
/** Of those that `ratio` is made of; the others have fewer. */
const rounds = 11;
const fewRounds = 3;
const counted: ReadonlySet<KernelName> = new Set(['sum', 'xor', 'dot_product']);
const avx512Cases = ['sum f32', 'dot_product f32'];
const passes = 5;
/** numpy's histogram takes seconds for what the others read in a hundredth: a part is enough. */
const histogramBytes = 32 * 1024 * 1024;

interface Scripts {
  readonly buildKernels: (variant: string) => Promise<string>;
  readonly ensureDebianPackages: (names: readonly string[]) => Promise<boolean>;
}
const scriptOf = async (name: string): Promise<Scripts> =>
  (await import(pathToFileURL(join(checkout, 'scripts', 'lib', name)).href)) as Scripts;

export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const { ensureDebianPackages } = await scriptOf('debian.mjs');
  if (!(await ensureDebianPackages(['python3-numpy', 'libopenblas0-pthread']))) {
    throw new Error('this bench compares with numpy of Debian: python3-numpy and libopenblas0-pthread');
  }
  const { buildKernels } = await scriptOf('kernels.mjs');
  const reader = join(await buildKernels('native'), 'bin', 'kernels-read');
  const library = loadKernelLibrary(join(engineDirectory(), 'covey-kernels.node'));
  const directory = await mkdtemp(join(os.tmpdir(), 'covey-bench-kernels-'));
  const all = os.availableParallelism();
  const sides: { readonly name: string; readonly threads: number; readonly side: Side }[] = [];
  for (const threads of all > 1 ? [1, all] : [1]) {
    sides.push(
      { name: 'ours', threads, side: ourSide(library, threads) },
      { name: 'numpy', threads, side: numpySide(threads) },
      { name: 'read', threads, side: readSide(reader, megabytes, threads) },
    );
  }
  // What AVX-512 has code of its own for must be worth it.
  const wide = library.isas[0] === 'avx512';
  if (wide) sides.push({ name: 'avx2', threads: 1, side: ourSide(library, 1, 'avx2') });
  try {
    log('writing 2.3 GB of data ...');
    const files = await writeData(directory);
    const runs: BenchRun[] = [];
    for (const one of casesOf(files)) {
      const name = `${one.call.kernel} ${one.call.type}`;
      const values = new Map<string, unknown>();
      for (let round = 0; round <= rounds; round += 1) {
        for (const { name: side, threads, side: measured } of round % 2 === 0 ? sides : sides.toReversed()) {
          const slow = side === 'numpy' && one.call.kernel === 'histogram';
          const compared = side !== 'avx2' || avx512Cases.includes(name);
          if (!compared || (round > fewRounds && (slow || !counted.has(one.call.kernel)))) continue;
          const { seconds, value } = await measured.measure(one, slow || round === 0 ? 1 : passes);
          values.set(`${side} ${threads}`, value);
          if (round === 0) continue;
          const figures = { [name]: (one.files.length * one.bytes) / Math.min(...seconds) / 1e9 };
          runs.push({ side: `${side} x${threads}`, figures });
        }
      }
      log(`${name}: ${describe(runs, name)}`);
      for (const threads of new Set(sides.map((side) => side.threads))) {
        if (!agree(one, values.get(`ours ${threads}`), values.get(`numpy ${threads}`))) {
          throw new Error(`${name}: ${String(values.get(`ours ${threads}`))} is not what numpy has`);
        }
      }
    }
    return summarise(runs, [...new Set(sides.map((side) => side.threads))], library.isas[0] ?? 'scalar');
  } finally {
    for (const { side } of sides) side.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/** The second of each is for products, of half the size. */
const fileNames = ['bits', 'f32', 'f64', 'bits2', 'f322', 'f642'] as const;
type Files = Readonly<Record<(typeof fileNames)[number], string>>;

/** Random bits for integers, uniform in [0, 1) for floats: no NaN, as in data that is measured. */
async function writeData(directory: string): Promise<Files> {
  const chunk = new Uint32Array(1024 * 1024);
  let state = 12_345;
  for (const name of fileNames) {
    const file = await open(join(directory, name), 'w');
    const size = name.endsWith('2') && name !== 'f32' ? bytes / 2 : bytes;
    for (let written = 0; written < size; written += chunk.byteLength) {
      for (let index = 0; index < chunk.length; index += 1) {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
        chunk[index] = state ^ (state >>> 15);
      }
      const content = asElements(name, chunk);
      await file.write(new Uint8Array(content.buffer, content.byteOffset, content.byteLength));
    }
    // Or the system would write while reading is measured.
    await file.sync();
    await file.close();
  }
  return Object.fromEntries(fileNames.map((name) => [name, join(directory, name)])) as unknown as Files;
}

function asElements(name: string, words: Uint32Array): Uint32Array | Float32Array | Float64Array {
  if (name.startsWith('f32')) return Float32Array.from(words, (word) => (word >>> 8) / 2 ** 24);
  if (!name.startsWith('f64')) return words;
  const half = words.length / 2;
  return Float64Array.from({ length: half }, (_value, index) => {
    return (words[index] ?? 0) / 2 ** 32 + (words[half + index] ?? 0) / 2 ** 64;
  });
}

function casesOf(files: Files): Case[] {
  return (Object.entries(kernelTypes) as [KernelName, readonly ElementType[]][]).flatMap(([kernel, types]) =>
    types.map((type): Case => {
      const kind = type === 'f32' || type === 'f64' ? type : 'bits';
      const call = { kernel, type };
      if (kernel === 'dot_product')
        return { call, files: [files[kind], files[`${kind}2`]], bytes: bytes / 2 };
      if (kernel !== 'histogram') return { call, files: [files[kind]], bytes };
      return { call: { ...call, ...binsOf(type) }, files: [files[kind]], bytes: histogramBytes };
    }),
  );
}

/** Powers of two, whose edges are doubles: numpy makes bins of integers from doubles. */
function binsOf(type: ElementType): { bins: number; low: number; high: number } {
  if (type === 'f32' || type === 'f64') return { bins: 256, low: 0, high: 1 };
  const bits = Number(type.slice(1));
  return {
    bins: 256,
    low: type.startsWith('u') ? 0 : -(2 ** (bits - 1)),
    high: 2 ** (type.startsWith('u') ? bits : bits - 1),
  };
}

function agree({ call }: Case, ours: unknown, numpys: unknown): boolean {
  if (call.kernel === 'histogram') {
    const { counts } = ours as { counts: readonly number[] };
    // Doubles are too short for the largest of 64 bits: numpy counts some of them one bin off.
    return call.type.endsWith('64') || counts.every((count, bin) => count === (numpys as number[])[bin]);
  }
  if (call.type.startsWith('f')) {
    const [x, y] = [Number(ours), Number(numpys)];
    return Math.abs(x - y) <= Math.abs(x) * (call.type === 'f32' ? 1e-3 : 1e-9);
  }
  // numpy's integers wrap.
  const wrapped = (value: unknown): bigint =>
    BigInt.asIntN(call.kernel === 'dot_product' ? 32 : 64, BigInt(value as string));
  return wrapped(ours) === wrapped(numpys);
}

/** One for each round, in their order. */
function figuresOf(runs: readonly BenchRun[], side: string, name: string): number[] {
  return runs.flatMap((run) => (run.side === side ? [run.figures[name] ?? []].flat() : []));
}

function figureOf(runs: readonly BenchRun[], side: string, name: string): number {
  return median(figuresOf(runs, side, name));
}

/** The median of what one side had for what the other had in the same round. */
function ratioOf(runs: readonly BenchRun[], side: string, other: string, name: string): number {
  const others = figuresOf(runs, other, name);
  return median(figuresOf(runs, side, name).map((figure, round) => figure / (others[round] ?? NaN)));
}

function describe(runs: readonly BenchRun[], name: string): string {
  const sides = [...new Set(runs.filter((run) => name in run.figures).map(({ side }) => side))];
  return sides
    .sort()
    .map((side) => `${side} ${figureOf(runs, side, name).toFixed(2)}`)
    .join(', ');
}

function summarise(runs: readonly BenchRun[], threadCounts: readonly number[], isa: string): BenchResult {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.figures)))];
  const more: Record<string, number> = {};
  let lowest = { ratio: Infinity, ours: NaN, theirs: NaN, name: '' };
  let histogramRatio = Infinity;
  let extremesRatio = Infinity;
  for (const threads of threadCounts) {
    for (const name of names) {
      const side = `ours x${threads}`;
      const ours = figureOf(runs, side, name);
      more[`${name} x${threads}`] = ours;
      const toNumpy = ratioOf(runs, side, `numpy x${threads}`, name);
      if (name.startsWith('histogram')) histogramRatio = Math.min(histogramRatio, toNumpy);
      else if (name.startsWith('m')) extremesRatio = Math.min(extremesRatio, toNumpy);
      else {
        const toRead = ratioOf(runs, side, `read x${threads}`, name);
        const ratio = Math.min(toNumpy, toRead);
        const better = `${toNumpy < toRead ? 'numpy' : 'read'} x${threads}`;
        more[`ratio x${threads}`] = Math.min(more[`ratio x${threads}`] ?? Infinity, ratio);
        if (ratio < lowest.ratio) {
          lowest = { ratio, ours, theirs: figureOf(runs, better, name), name: `${name} x${threads}` };
        }
      }
    }
  }
  for (const name of avx512Cases) {
    const gain = ratioOf(runs, 'ours x1', 'avx2 x1', name);
    if (Number.isFinite(gain)) more[`${name} avx512 / avx2`] = gain;
  }
  return {
    name: 'kernels',
    ratio: lowest.ratio,
    ratioOf: `lowest of sum, xor, dot_product (${lowest.name}, ${isa}): ours / better of numpy and read bandwidth`,
    ours: lowest.ours,
    theirs: lowest.theirs,
    unit: 'GB/s',
    more: { ...more, histogramRatio, extremesRatio },
    targets: { ratio: { atLeast: 0.9 }, histogramRatio: { atLeast: 1 } },
    runs,
    machine: describeMachine(),
  };
}
