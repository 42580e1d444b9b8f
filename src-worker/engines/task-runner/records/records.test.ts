import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DatasetWork } from '#shared/domain/task.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { buildIndex } from './build-index.ts';
import { bytesOf, locate, recordsOf } from './scan.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-records-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const never = new AbortController().signal;
const dataset = (format: DatasetWork['format'], change: Partial<DatasetWork> = {}): DatasetWork => ({
  artifact: { id: 'a'.repeat(64) as ArtifactId, kind: 'file', bytes: 1 },
  format,
  recordBytes: null,
  header: false,
  ...change,
});

async function textOf(path: string, extent: { from: number; to: number }): Promise<string> {
  const file = await open(path);
  const pieces: Uint8Array[] = [];
  for await (const piece of bytesOf(file, extent, never)) pieces.push(piece);
  await file.close();
  return Buffer.concat(pieces).toString();
}

describe('records', () => {
  it.each(['csv', 'text', 'jsonl'] as const)(
    'of %s: shares put together are the whole, in order',
    async (format) => {
      const path = join(directory, `${format}.data`);
      // Fields may hold line breaks and quotes only in csv, where they are quoted.
      const field = format === 'csv' ? fc.string() : fc.string().map((text) => text.replace(/[\r\n]/g, ' '));
      const record = field.map((text) =>
        format === 'csv' ? `"${text.replaceAll('"', '""')}",x\n` : `${text}\n`,
      );
      await fc.assert(
        fc.asyncProperty(
          fc.array(record, { minLength: 1, maxLength: 60 }),
          fc.boolean(),
          fc.array(fc.nat(60), { maxLength: 4 }),
          async (records, ended, cuts) => {
            const whole = records.join('');
            const last = records.at(-1) ?? '';
            const header = format === 'csv' && records.length > 1;
            const text = ended || last === '\n' ? whole : whole.slice(0, -1);
            writeFileSync(path, text);
            const work = dataset(format, { header });
            const count = records.length - (header ? 1 : 0);
            const index = await buildIndex(path, work, never, () => undefined);
            expect(index.records).toBe(count);
            const places = [...new Set([0, ...cuts.map((cut) => Math.min(cut, count)), count])].sort(
              (a, b) => a - b,
            );
            let joined = header ? (records[0] ?? '') : '';
            const single: string[] = [];
            for (const [at, from] of places.slice(0, -1).entries()) {
              const to = places[at + 1] ?? from;
              const seek = index.seeks.findLast((one) => one.record <= from) ?? null;
              const file = await open(path);
              const found = await locate(file, work, { from, to }, seek, never);
              for await (const one of recordsOf(file, work, { from, to }, seek, never))
                single.push(one.toString());
              await file.close();
              joined += await textOf(path, found.records);
            }
            expect(joined).toBe(text);
            expect(single.join('')).toBe(header ? text.slice((records[0] ?? '').length) : text);
            expect(single).toHaveLength(count);
          },
        ),
        { numRuns: 60 },
      );
    },
  );

  it('of a binary file have one size', async () => {
    const path = join(directory, 'binary');
    writeFileSync(path, Buffer.from([1, 2, 3, 4, 5, 6]));
    const work = dataset('binary', { recordBytes: 2 });
    expect(await buildIndex(path, work, never, () => undefined)).toEqual({ records: 3, seeks: [] });
    const file = await open(path);
    const found: number[][] = [];
    for await (const one of recordsOf(file, work, { from: 1, to: 3 }, null, never)) found.push([...one]);
    await file.close();
    expect(found).toEqual([
      [3, 4],
      [5, 6],
    ]);
    const odd = dataset('binary', { recordBytes: 4 });
    await expect(buildIndex(path, odd, never, () => undefined)).rejects.toMatchObject({
      code: 'dataset_invalid',
    });
  });

  it('are indexed at evenly spread places, however many there are', async () => {
    const path = join(directory, 'many');
    writeFileSync(path, 'x\n'.repeat(100_000));
    const { records, seeks } = await buildIndex(path, dataset('text'), never, () => undefined);
    expect(records).toBe(100_000);
    expect(seeks.length).toBeGreaterThan(500);
    expect(seeks.length).toBeLessThanOrEqual(1_024);
    expect(seeks.every(({ record, byte }) => byte === 2 * record)).toBe(true);
    const steps = new Set(seeks.slice(1).map(({ record }, at) => record - (seeks[at]?.record ?? 0)));
    expect(steps.size).toBe(1);
  });

  it('of an empty file are none', async () => {
    const path = join(directory, 'empty');
    writeFileSync(path, '');
    expect(await buildIndex(path, dataset('csv', { header: true }), never, () => undefined)).toEqual({
      records: 0,
      seeks: [],
    });
  });

  it.each([
    ['windows', 'a,b\r\n1,2\r\n', 2],
    ['a mark of byte order', '\ufeff"a\nb",c\n1,2\n', 2],
    ['quotes in quotes, and line breaks', '"a ""x""\n\n",b\n"",1\n', 2],
    ['no final line break', '1,2\n3,4', 2],
    ['empty lines', '\n\n1\n', 3],
    ['one record, which is one byte', 'x', 1],
  ])('of csv with %s', async (_what, text, records) => {
    const path = join(directory, 'odd.csv');
    writeFileSync(path, text);
    const index = await buildIndex(path, dataset('csv'), never, () => undefined);
    expect(index.records).toBe(records);
    const file = await open(path);
    const found: string[] = [];
    for await (const one of recordsOf(file, dataset('csv'), { from: 0, to: records }, null, never))
      found.push(one.toString());
    await file.close();
    expect(found.join('')).toBe(text);
    expect(found).toHaveLength(records);
  });

  it('of csv where a quote is never closed are refused, not taken for one', async () => {
    const path = join(directory, 'unclosed.csv');
    writeFileSync(path, `name,size\nnail,5"\n${'a,1\n'.repeat(100)}`);
    await expect(
      buildIndex(path, dataset('csv', { header: true }), never, () => undefined),
    ).rejects.toMatchObject({
      code: 'dataset_invalid',
      message: expect.stringContaining('record at byte 10 has a quote') as string,
    });
  });

  it('that are longer than a block, or cross one, are whole', async () => {
    const path = join(directory, 'long');
    const long = `${'x'.repeat(3 * 1024 * 1024)}\n`;
    const crossing = `${'y'.repeat(700_000)}\n`;
    writeFileSync(path, [crossing, crossing, long, 'z'].join(''));
    const work = dataset('jsonl');
    const { records, seeks } = await buildIndex(path, work, never, () => undefined);
    expect(records).toBe(4);
    const file = await open(path);
    const found: number[] = [];
    const seek = seeks[1] ?? null;
    for await (const one of recordsOf(file, work, { from: 1, to: 4 }, seek, never)) found.push(one.length);
    await file.close();
    expect(found).toEqual([crossing.length, long.length, 1]);
  });

  it('are not read on when that was cancelled', async () => {
    const path = join(directory, 'many');
    const stopped = new AbortController();
    stopped.abort(new Error('stop'));
    await expect(buildIndex(path, dataset('text'), stopped.signal, () => undefined)).rejects.toThrow('stop');
  });
});
