import { execFile } from 'node:child_process';
import { appendFile, mkdtemp, open as openFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ElementType, KernelCall, KernelName } from '#shared/domain/kernel-call.ts';
import { elementBytes, kernelTypes } from '#shared/domain/kernel-call.ts';
import {
  combineKernel,
  combinePartials,
  readPartial,
  type KernelPartial,
} from '#shared/domain/kernel-results.ts';
import { engineDirectory } from '../../../e2e/support/checkout.ts';
import { elementsOf, loadKernelLibrary, type KernelLibrary, type KernelRun } from './binding.ts';

const blockBytes = 4 * 1024 * 1024;
const libraryFile = join(engineDirectory(), 'covey-kernels.node');
let library: KernelLibrary;
let directory: string;
beforeAll(async () => {
  library = loadKernelLibrary(libraryFile);
  directory = await mkdtemp(join(tmpdir(), 'covey-kernels-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** The same bytes for the same seed (mulberry32, a byte at a time would be slow). */
function randomBytes(bytes: number, seed: number): Buffer {
  const words = new Uint32Array(Math.ceil(bytes / 4));
  let state = seed;
  for (let index = 0; index < words.length; index += 1) {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    words[index] = mixed ^ (mixed >>> 14);
  }
  return Buffer.from(words.buffer, 0, bytes);
}

async function fileOf(name: string, content: Buffer | ArrayBufferView): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, content as Buffer);
  return path;
}

function callsOf(): KernelCall[] {
  return (Object.entries(kernelTypes) as [KernelName, readonly ElementType[]][]).flatMap(([kernel, types]) =>
    types.map((type) => ({
      ...{ kernel, type },
      ...(kernel === 'histogram' ? { bins: 50, low: type.startsWith('u') ? 5 : -70, high: 200 } : {}),
    })),
  );
}

async function run(given: Omit<KernelRun, 'threads'> & { threads?: number }): Promise<KernelPartial> {
  const partial = await library.start({ threads: 2, ...given }).partial;
  // What a worker sends is what a controller takes.
  expect(readPartial(given.call, JSON.parse(JSON.stringify(partial)))).toEqual({
    ok: true,
    value: partial,
  });
  return partial;
}

describe('partial results of parts, combined here, are those of the whole there', () => {
  const bytes = 4 * blockBytes + 64;
  let [a, b] = ['', ''];
  beforeAll(async () => {
    a = await fileOf('a', randomBytes(bytes, 1));
    b = await fileOf('b', randomBytes(bytes, 2));
  });
  it.each(callsOf())('$kernel of $type', async (call) => {
    const input = library.open(a);
    const second = call.kernel === 'dot_product' ? library.open(b) : null;
    const whole = await run({
      call,
      input,
      second,
      fromByte: 0,
      toByte: bytes,
    });
    expect(whole.elements).toBe(bytes / elementBytes[call.type]);
    // Sums of floats are the same bits when they are cut between blocks, everything else wherever it is cut.
    const rounds = (call.kernel === 'sum' || call.kernel === 'dot_product') && call.type.startsWith('f');
    const cuts = rounds ? [blockBytes, 3 * blockBytes] : [24, blockBytes + 8, 4 * blockBytes - 16];
    const edges = [0, ...cuts, bytes];
    const parts: KernelPartial[] = [];
    for (const isa of library.isas) {
      for (let index = 1; index < edges.length; index += 1) {
        const range = {
          fromByte: edges[index - 1] ?? 0,
          toByte: edges[index] ?? 0,
        };
        parts.push(await run({ call, input, second, ...range, isa, threads: index }));
      }
      const together = parts.splice(0).toReversed().reduce(combinePartials);
      expect(together).toEqual(whole);
    }
    input.close();
    second?.close();
  });
});

describe('what is computed', () => {
  const of = async (call: KernelCall, values: ArrayBufferView, more?: ArrayBufferView): Promise<unknown> => {
    const input = library.open(await fileOf('values', values));
    const second = more ? library.open(await fileOf('more', more)) : null;
    try {
      return combineKernel(call, [
        await run({
          call,
          input,
          second,
          fromByte: 0,
          toByte: values.byteLength,
        }),
      ]);
    } finally {
      input.close();
      second?.close();
    }
  };

  it('integers are exact', async () => {
    const large = 2n ** 63n - 1n;
    expect(await of({ kernel: 'sum', type: 'i64' }, BigInt64Array.of(large, large, 5n))).toBe(
      String(2n * large + 5n),
    );
    expect(await of({ kernel: 'sum', type: 'i32' }, Int32Array.of(-3, 1))).toBe(-2);
    const most = Int32Array.of(-(2 ** 31), -(2 ** 31), -(2 ** 31));
    expect(await of({ kernel: 'dot_product', type: 'i32' }, most, most)).toBe(String(3n * 2n ** 62n));
    expect(await of({ kernel: 'xor', type: 'u16' }, Uint16Array.of(1, 2, 0xffff))).toBe(0xfffc);
    expect(await of({ kernel: 'max', type: 'u64' }, BigUint64Array.of(1n, 2n ** 64n - 1n))).toBe(
      String(2n ** 64n - 1n),
    );
    expect(await of({ kernel: 'min', type: 'i64' }, BigInt64Array.of(1n, -(2n ** 60n)))).toBe(
      String(-(2n ** 60n)),
    );
  });

  it('floats lose nothing on the way', async () => {
    expect(await of({ kernel: 'sum', type: 'f64' }, Float64Array.of(1e300, 1, -1e300))).toBe(1);
    expect(await of({ kernel: 'sum', type: 'f64' }, Float64Array.of(1.7e308, 1.7e308, -1.7e308))).toBe(
      1.7e308,
    );
    expect(await of({ kernel: 'sum', type: 'f32' }, Float32Array.of(2 ** 100, 1, -(2 ** 100)))).toBe(1);
    expect(await of({ kernel: 'sum', type: 'f64' }, Float64Array.of(1, Infinity))).toBe('Infinity');
    expect(await of({ kernel: 'sum', type: 'f64' }, Float64Array.of(-Infinity, Infinity))).toBe('NaN');
    expect(
      await of({ kernel: 'dot_product', type: 'f64' }, Float64Array.of(3, 0.5), Float64Array.of(4, 8)),
    ).toBe(16);
    expect(await of({ kernel: 'min', type: 'f32' }, Float32Array.of(NaN, 2, -0.5))).toBe(-0.5);
    expect(await of({ kernel: 'max', type: 'f64' }, Float64Array.of(NaN, NaN))).toBeNull();
  });

  it('a histogram', async () => {
    const call: KernelCall = {
      kernel: 'histogram',
      type: 'f64',
      bins: 4,
      low: 0,
      high: 1,
    };
    expect(await of(call, Float64Array.of(0, 0.25, 0.3, 0.99, 1, -1, NaN, Infinity))).toEqual({
      ...{ low: 0, high: 1, counts: [1, 2, 0, 1], under: 1, over: 2, nan: 1 },
    });
  });

  it('of nothing', async () => {
    expect(await of({ kernel: 'sum', type: 'f64' }, new Float64Array())).toBe(0);
    expect(await of({ kernel: 'min', type: 'i32' }, new Int32Array())).toBeNull();
    expect(await of({ kernel: 'dot_product', type: 'f32' }, new Float32Array(), new Float32Array())).toBe(0);
  });
});

describe('a run', () => {
  it('tells how far it is, and ends when it is told to', async () => {
    const bytes = 64 * blockBytes;
    const path = await fileOf('large', Buffer.alloc(0));
    await truncate(path, bytes);
    const input = library.open(path);
    const call: KernelCall = {
      kernel: 'histogram',
      type: 'u8',
      bins: 4,
      low: 0,
      high: 256,
    };
    const running = library.start({
      call,
      input,
      fromByte: 0,
      toByte: bytes,
      threads: 2,
    });
    running.cancel();
    await expect(running.partial).rejects.toMatchObject({ code: 'cancelled' });
    expect(running.bytesDone()).toBeLessThan(bytes);
    running.cancel();

    const whole = library.start({
      call,
      input,
      fromByte: 0,
      toByte: bytes,
      threads: 2,
    });
    // Closed and not awaited: it keeps what it needs.
    input.close();
    let seen = 0;
    const look = setInterval(() => (seen = Math.max(seen, whole.bytesDone())), 1);
    expect(await whole.partial).toMatchObject({ counts: [bytes, 0, 0, 0] });
    clearInterval(look);
    expect(seen).toBeGreaterThan(0);
    expect(whole.bytesDone()).toBe(bytes);
  });

  it('many at once, of few elements', async () => {
    const values = BigInt64Array.from({ length: 3_000 }, (_value, index) => BigInt(index));
    const input = library.open(await fileOf('many', values));
    const call: KernelCall = { kernel: 'sum', type: 'i64' };
    const running = Array.from({ length: 3_000 }, (_value, index) =>
      library.start({
        call,
        input,
        fromByte: 8 * index,
        toByte: 8 * index + 8,
        threads: 1,
      }),
    );
    const partials = await Promise.all(running.map(({ partial }) => partial));
    expect(combineKernel(call, partials)).toBe((2_999 * 3_000) / 2);
    input.close();
  });

  it.each([
    ['becomes shorter by pages', (path: string) => truncate(path, blockBytes)],
    ['becomes shorter by a byte', (path: string) => truncate(path, 8 * blockBytes - 1)],
    ['is added to', (path: string) => appendFile(path, 'x')],
    ['is written again', (path: string) => utimes(path, 1, 1)],
  ])('of a file that %s is refused, and nothing else happens', async (_what, change) => {
    const path = await fileOf('changing', randomBytes(8 * blockBytes, 3));
    const input = library.open(path);
    await change(path);
    const run = library.start({
      ...{ call: { kernel: 'sum', type: 'i32' }, input, threads: 2 },
      ...{ fromByte: 0, toByte: 8 * blockBytes },
    });
    await expect(run.partial).rejects.toMatchObject({
      code: 'dataset_invalid',
    });
    input.close();
  });

  it('reads what lies beyond 4 GiB, and only that', async () => {
    const path = await fileOf('beyond', Buffer.alloc(0));
    const at = 5 * 2 ** 30;
    await truncate(path, at + 2 * blockBytes);
    const written = await openFile(path, 'r+');
    await written.write(BigInt64Array.of(-5n, 7n), 0, 16, at + 8);
    await written.close();
    const call: KernelCall = { kernel: 'sum', type: 'i64' };
    const whole = library.open(path);
    const part = library.open(path, { offset: at, bytes: 64 });
    expect(whole.bytes).toBe(at + 2 * blockBytes);
    expect(await run({ call, input: whole, fromByte: at, toByte: at + 16 })).toMatchObject({ total: '-5' });
    expect(await run({ call, input: whole, fromByte: at + 16, toByte: whole.bytes })).toMatchObject({
      total: '7',
    });
    expect(await run({ call, input: part, fromByte: 8, toByte: 24 })).toMatchObject({ total: '2' });
    whole.close();
    part.close();
    await rm(path);
  });

  it('does not keep a process from ending, nor outlive a thread that started it', async () => {
    const path = await fileOf('ending', Buffer.alloc(0));
    await truncate(path, 128 * blockBytes);
    const source = `
      const library = require(${JSON.stringify(libraryFile)});
      const mapping = library.open(${JSON.stringify(path)}, 0, null);
      library.start(5, 4, 0, 2, 4, 0, 256, mapping, 0, null, 0, ${128 * blockBytes}, 0, () => console.log('ended'));`;
    const ended = await promisify(execFile)(process.execPath, ['-e', source], {
      timeout: 60_000,
    });
    expect(ended.stdout).toBe('ended\n');
    const left = await promisify(execFile)(process.execPath, ['-e', `${source} process.exit(0);`], {
      timeout: 60_000,
    });
    expect(left.stdout).toBe('');
    for (let round = 0; round < 3; round += 1) {
      const worker = new Worker(source, { eval: true });
      await new Promise((resolve) => worker.once('online', resolve));
      await new Promise((resolve) => setTimeout(resolve, 20 * round));
      expect(await worker.terminate()).toBe(1);
    }
  });
});

describe('what cannot be is refused with words', () => {
  it('files', async () => {
    const missing = expect.objectContaining({
      code: 'dataset_invalid',
    }) as Error;
    expect(() => library.open(join(directory, 'none'))).toThrow(missing);
    expect(() => library.open(directory)).toThrow(/not a regular file/);
    expect(() => library.open('/dev/zero')).toThrow(/not a regular file/);
    expect(() => library.open('a\0b')).toThrow(missing);
    const path = await fileOf('small', Buffer.alloc(30));
    expect(() => library.open(path, { offset: 31, bytes: 0 })).toThrow(/30 bytes/);
    expect(() => library.open(path, { offset: 20, bytes: 11 })).toThrow(/30 bytes/);
    expect(() => library.open(path, { offset: -1, bytes: 1 })).toThrow(/whole number/);
    const part = library.open(path, { offset: 2, bytes: 28 });
    expect(part.bytes).toBe(28);
    expect(elementsOf(part, { kernel: 'sum', type: 'i32' })).toBe(7);
    expect(() => elementsOf(part, { kernel: 'sum', type: 'i64' })).toThrow(/no whole number of i64/);
    part.close();
    part.close();
  });

  it('calls', async () => {
    const input = library.open(await fileOf('calls', Buffer.alloc(64)));
    const good = {
      call: { kernel: 'sum', type: 'i32' },
      input,
      fromByte: 0,
      toByte: 64,
      threads: 1,
    } as const;
    const histogram = {
      kernel: 'histogram',
      type: 'u8',
      bins: 4,
      low: 0,
      high: 256,
    } as const;
    const wrong: [object, RegExp][] = [
      [{ call: { kernel: 'sum', type: 'u8' } }, /does not take/],
      [{ call: { kernel: 'average', type: 'i32' } }, /kernel must be/],
      [{ call: { ...histogram, high: 257 } }, /bins must be/],
      [{ call: { ...histogram, bins: 1e9 } }, /bins must be/],
      [{ call: { ...histogram, bins: 1.5 } }, /whole number/],
      [{ call: { ...histogram, low: 'x' } }, /low must be a number/],
      [{ toByte: 65 }, /does not lie in input/],
      [{ toByte: 63 }, /middle of an element/],
      [{ fromByte: 4, toByte: 0 }, /no range/],
      [{ fromByte: NaN }, /no range/],
      [{ toByte: 2 ** 52 }, /does not lie in input/],
      [{ threads: 0 }, /threads must be/],
      [{ threads: 257 }, /threads must be/],
      [{ second: input }, /dot_product takes two/],
      [{ call: { kernel: 'dot_product', type: 'f32' } }, /dot_product takes two/],
      [{ isa: 'mmx' }, /isa must be/],
      [{ input: { bytes: 64, close: () => undefined } }, /did not open/],
    ];
    for (const [change, words] of wrong) {
      expect(() => library.start({ ...good, ...change }), JSON.stringify(change)).toThrow(words);
    }
    expect(await library.start(good).partial).toMatchObject({ total: '0' });
    input.close();
    expect(() => library.start(good)).toThrow(/closed/);
  });

  it('handles of others, given to the module itself', () => {
    const raw = process.getBuiltinModule('node:module').createRequire(import.meta.url)(libraryFile) as Record<
      string,
      (...values: unknown[]) => unknown
    >;
    for (const name of Object.keys(raw).filter((key) => typeof raw[key] === 'function')) {
      for (const value of [
        undefined,
        null,
        {},
        [],
        1,
        'x',
        () => undefined,
        new Proxy({}, {}),
        Symbol('x'),
      ]) {
        expect(() => raw[name]?.(...Array.from({ length: 14 }, () => value)), name).toThrow(
          name === 'hasIsa' && value === 1 ? /^$/ : Error,
        );
        if (name === 'hasIsa') break;
      }
      if (name !== 'hasIsa') expect(() => raw[name]?.(), name).toThrow();
    }
  });

  it.each([
    ['of an earlier version', 'module.exports = { hasIsa: () => true };', 'unknown'],
    ['of a later version', 'module.exports = { hasIsa: () => true, abiVersion: 99 };', '99'],
  ])('a library %s', async (_which, source, version) => {
    const file = await fileOf(`other-${version}.cjs`, Buffer.from(source));
    expect(() => loadKernelLibrary(file)).toThrow(
      expect.objectContaining({
        code: 'kernels_unavailable',
        message: expect.stringContaining(`of version ${version} and this program wants 1`) as string,
      }) as Error,
    );
    await rm(file);
  });

  it('a library that is none', async () => {
    const file = await fileOf('none.node', Buffer.from('not a library'));
    for (const path of [file, join(directory, 'missing.node')]) {
      expect(() => loadKernelLibrary(path)).toThrow(
        expect.objectContaining({ code: 'kernels_unavailable' }) as Error,
      );
    }
  });
});
