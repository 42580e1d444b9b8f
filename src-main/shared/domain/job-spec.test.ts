import { describe, expect, test } from 'vitest';
import { jobSpecSchema } from './job-spec.ts';

const command = { kind: 'command', command: ['x'] };
const map = { ...command, kind: 'map', dataset: { artifact: 'rows', format: 'csv' } };
const inference = {
  kind: 'inference',
  model: 'm',
  task: 'chat',
  dataset: { artifact: 'rows', format: 'jsonl' },
};

function refusalOf(spec: object): string[] {
  const { error } = jobSpecSchema.safeParse(spec);
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

describe('a refusal names the field and says what was expected', () => {
  test.each<[object, string, string]>([
    [{ ...command, partitions: 0 }, 'partitions', '>=1'],
    [{ ...map, partitions: 'many' }, 'partitions', 'must be "auto" or a whole number from 1 to 100000'],
    [{ ...command, env: { '1X': 'a' } }, 'env.1X', 'must be a name of letters'],
    [{ ...command, env: { X: 1 } }, 'env.X', 'expected string, received number'],
    [{ ...command, secrets: { 'a b': 'x' } }, 'secrets.a b', 'must be a name of letters'],
    [{ ...command, distribution: { mode: 'manual' } }, 'distribution.shares', 'expected array'],
    [{ ...command, inputs: [{ artifact: 'a', path: '../x' }] }, 'inputs.0.path', 'without ".."'],
    [{ ...map, dataset: { artifact: 'a', format: 'xml' } }, 'dataset.format', '"csv"|"jsonl"'],
    [{ ...inference, parameters: { stop: NaN } }, 'parameters.stop', 'must be JSON'],
  ])('%j: %s', (spec, field, message) => {
    expect(refusalOf(spec)).toEqual([expect.stringContaining(message)]);
    expect(refusalOf(spec)[0]).toMatch(new RegExp(`^${field}: `));
  });

  test('also of parameters that nest deeper than anybody can follow', () => {
    const stop: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
    expect(refusalOf({ ...inference, parameters: { stop } })).toEqual([
      'parameters.stop: must be JSON, at most 32 levels deep',
    ]);
  });
});
