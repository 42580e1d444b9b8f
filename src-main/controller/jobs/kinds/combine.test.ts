import { describe, expect, test } from 'vitest';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import { emptyPartial } from '#shared/domain/kernel-results.ts';
import type { TaskResult } from '#shared/domain/task.ts';
import type { JobDefinition } from '../../state/job-state.ts';
import { stakeOf } from '../fixtures.ts';
import { combine } from './combine.ts';
import { divide } from './division.ts';
import { workOf } from './work.ts';

function definitionOf(document: object): JobDefinition {
  const spec = jobSpecSchema.parse(document);
  const file = stakeOf('1', 800);
  const resolved = { input: file, second: null, dataset: file, inputs: [] };
  return {
    name: 'job',
    work: workOf(spec, resolved),
    division: divide(spec, resolved).division,
  } as unknown as JobDefinition;
}
const sum = { kind: 'kernel', kernel: 'sum', type: 'i64', input: 'x' };
const map = { kind: 'map', command: ['cat'], dataset: { artifact: 'x', format: 'text' } };
const total = (value: string): TaskResult => ({
  value: { ...emptyPartial({ kernel: 'sum', type: 'i64' }), elements: 1, total: value },
  artifacts: [],
});
const made = (digit: string, name: string): TaskResult => ({
  value: null,
  artifacts: [{ ...stakeOf(digit, 5), name }],
});

describe('combine', () => {
  test('kernels reduce, exactly', async () => {
    const results = [
      { index: 0, units: 1, result: total('9007199254740993') },
      { index: 1, units: 1, result: total('-1') },
    ];
    expect(await combine(definitionOf(sum), results, 2)).toEqual({
      how: 'given',
      result: { value: '9007199254740992', artifacts: [], missing: 2 },
    });
    expect(await combine(definitionOf(sum), [], 0)).toMatchObject({ result: { value: 0 } });
  });

  test('a partial result of something else is refused by its partition', async () => {
    const wrong = { index: 7, units: 1, result: { value: { kernel: 'sum' }, artifacts: [] } };
    await expect(combine(definitionOf(sum), [wrong], 0)).rejects.toThrow('Partition 7: ');
    const short = { index: 8, units: 2, result: total('1') };
    const why = 'Partition 8: its result is of 1 elements, its range has 2.';
    await expect(combine(definitionOf(sum), [short], 0)).rejects.toThrow(why);
  });

  test('outputs of maps become one file, in the order given', async () => {
    const results = [
      { index: 4, units: 5, result: made('4', 'output') },
      { index: 1, units: 5, result: made('5', 'output') },
    ];
    expect(await combine(definitionOf(map), results, 0)).toMatchObject({
      how: 'concatenate',
      name: 'job.out',
      parts: [{ id: stakeOf('4', 0).id }, { id: stakeOf('5', 0).id }],
    });
  });

  test('a map of which every partition has failed makes no file, one without records an empty one', async () => {
    expect(await combine(definitionOf(map), [], 3)).toEqual({
      how: 'given',
      result: { value: null, artifacts: [], missing: 3 },
    });
    expect(await combine(definitionOf(map), [], 0)).toMatchObject({ how: 'concatenate', parts: [] });
  });

  test('records that were refused are counted over all parts', async () => {
    const dataset = { artifact: 'x', format: 'text' };
    const inference = { kind: 'inference', model: 'm', task: 'chat', dataset };
    const results = [{ refused: 2 }, null, { refused: 3 }, { refused: 'many' }].map((value, index) => ({
      index,
      units: 5,
      result: { ...made('4', 'output'), value },
    }));
    expect(await combine(definitionOf(inference), results, 0)).toMatchObject({
      name: 'job.jsonl',
      refused: 5,
    });
    expect(await combine(definitionOf(map), [], 0)).toMatchObject({ refused: 0 });
  });

  test('outputs of commands are collected under their index, if there are several', async () => {
    const command = { kind: 'command', command: ['x'] };
    const names = async (document: object): Promise<string[]> => {
      const results = [{ index: 0, units: null, result: made('4', 'out.txt') }];
      const combination = await combine(definitionOf(document), results, 0);
      return combination.how === 'given' ? combination.result.artifacts.map(({ name }) => name) : [];
    };
    expect(await names(command)).toEqual(['out.txt']);
    expect(await names({ ...command, partitions: 3 })).toEqual(['0/out.txt']);
  });
});
