import { describe, expect, test } from 'vitest';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { divide, type Division } from './division.ts';

const stake = (bytes: number, kind: 'file' | 'tree' = 'file'): ArtifactStake => ({
  id: 'a'.repeat(64) as ArtifactId,
  kind,
  bytes,
});
const divided = (spec: object, input: ArtifactStake | null, second: ArtifactStake | null = null): Division =>
  divide(jobSpecSchema.parse(spec), { input, second, dataset: input });

const kernel = { kind: 'kernel', kernel: 'sum', type: 'f64', input: 'x' };
const map = { kind: 'map', command: ['cat'], dataset: { artifact: 'x', format: 'csv' } };
const binary = { ...map, dataset: { artifact: 'x', format: 'binary', recordBytes: 10 } };

describe('divide', () => {
  test('a kernel by elements, with second copies', () => {
    expect(divided(kernel, stake(800))).toEqual({
      unit: 'elements',
      total: 100,
      partitions: 'auto',
      combine: 'reduce',
      speculative: true,
      notes: [],
    });
    expect(divided({ ...kernel, speculative: false, partitions: 7 }, stake(800))).toMatchObject({
      partitions: 7,
      speculative: false,
    });
  });

  test('never into more parts than there are units, and says so', () => {
    const few = divided({ ...kernel, partitions: 7 }, stake(16));
    expect(few.partitions).toBe(2);
    expect(few.notes).toEqual(['There are only 2 elements: it runs as 2 partitions.']);
  });

  test('nothing is one empty partition', () => {
    expect(divided(kernel, stake(0))).toMatchObject({ total: 0, partitions: 1 });
    expect(divided(map, stake(0))).toMatchObject({ total: 0, partitions: 1 });
  });

  test('records that have to be read first, and those that have not', () => {
    expect(divided(map, stake(100))).toMatchObject({ unit: 'records', total: null, combine: 'concatenate' });
    expect(divided(binary, stake(100))).toMatchObject({ total: 10 });
    const inference = {
      kind: 'inference',
      model: 'm',
      task: 'chat',
      dataset: { artifact: 'x', format: 'jsonl' },
    };
    expect(divided(inference, stake(9))).toMatchObject({ total: null, speculative: true });
  });

  test('a command is counted and never divided by itself', () => {
    const one = divided({ kind: 'command', command: ['x'] }, null);
    expect(one).toMatchObject({
      unit: 'items',
      total: 1,
      partitions: 1,
      combine: 'collect',
      speculative: false,
    });
    expect(one.notes[0]).toContain('one partition');
    expect(divided({ kind: 'command', command: ['x'], partitions: 5 }, null)).toMatchObject({
      total: 5,
      notes: [],
    });
    expect(divided({ kind: 'gang', command: ['x'], ranks: 3 }, null)).toMatchObject({
      unit: 'ranks',
      total: 3,
      partitions: 3,
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
