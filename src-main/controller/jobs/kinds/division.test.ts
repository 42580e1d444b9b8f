import { describe, expect, test } from 'vitest';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { divide, type Divided } from './division.ts';

const stake = (bytes: number, kind: 'file' | 'tree' = 'file'): ArtifactStake => ({
  id: 'a'.repeat(64) as ArtifactId,
  kind,
  bytes,
});
const divided = (spec: object, input: ArtifactStake | null, second: ArtifactStake | null = null): Divided =>
  divide(jobSpecSchema.parse(spec), { input, second, dataset: input });

const kernel = { kind: 'kernel', kernel: 'sum', type: 'f64', input: 'x' };
const map = { kind: 'map', command: ['cat'], dataset: { artifact: 'x', format: 'csv' } };
const binary = { ...map, dataset: { artifact: 'x', format: 'binary', recordBytes: 10 } };

describe('divide', () => {
  test('a kernel by elements, with second copies', () => {
    expect(divided(kernel, stake(800))).toEqual({
      unit: 'elements',
      total: 100,
      division: { mode: 'auto', smallest: 131_072, largest: 67_108_864 },
      speculative: true,
      notes: [],
    });
    expect(divided({ ...kernel, speculative: false, partitions: 7 }, stake(800))).toMatchObject({
      division: { mode: 'counted', count: 7, ranged: true },
      speculative: false,
    });
  });

  test('never into more parts than there are units, and says so', () => {
    const few = divided({ ...kernel, partitions: 7 }, stake(16));
    expect(few.division).toEqual({ mode: 'counted', count: 2, ranged: true });
    expect(few.notes).toEqual(['There are only 2 elements: it runs as that many partitions.']);
  });

  test('records that have to be read first, and those that have not', () => {
    expect(divided(map, stake(100))).toMatchObject({ unit: 'records', total: null });
    expect(divided(map, stake(0))).toMatchObject({ total: 0 });
    expect(divided(binary, stake(100))).toMatchObject({ total: 10 });
    const inference = {
      kind: 'inference',
      model: 'm',
      task: 'chat',
      dataset: { artifact: 'x', format: 'jsonl' },
    };
    expect(divided(inference, stake(9))).toMatchObject({
      total: null,
      speculative: true,
      division: { smallest: 4 },
    });
  });

  test('a command is counted and never divided by itself', () => {
    const one = divided({ kind: 'command', command: ['x'] }, null);
    expect(one).toMatchObject({
      unit: 'items',
      total: 1,
      division: { mode: 'counted', count: 1, ranged: false },
      speculative: false,
    });
    expect(one.notes[0]).toContain('one partition');
    expect(divided({ kind: 'command', command: ['x'], partitions: 5 }, null)).toMatchObject({
      total: 5,
      notes: [],
    });
    expect(divided({ kind: 'gang', command: ['x'], ranks: 3 }, null)).toMatchObject({
      unit: 'ranks',
      division: { mode: 'counted', count: 3, ranged: false },
    });
  });

  test.each([
    [kernel, stake(801), null, 'input'],
    [kernel, stake(800, 'tree'), null, 'input'],
    [{ ...kernel, kernel: 'dot_product', second: 'y' }, stake(800), stake(808), 'second'],
    [binary, stake(101), null, 'dataset.recordBytes'],
    [map, stake(101, 'tree'), null, 'dataset.artifact'],
  ])('%j of the wrong size: %s', (spec, input, second, field) => {
    expect(() => divided(spec, input, second)).toThrowError(
      expect.objectContaining({ code: 'dataset_invalid', details: { field } }),
    );
  });
});
