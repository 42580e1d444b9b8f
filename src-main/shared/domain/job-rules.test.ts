import { describe, expect, test } from 'vitest';
import { checkJobSpec } from './job-rules.ts';
import { jobSpecSchema } from './job-spec.ts';

const fieldsOf = (spec: object): string[] =>
  checkJobSpec(jobSpecSchema.parse(spec)).map(({ field }) => field);

const kernel = { kind: 'kernel', kernel: 'sum', type: 'f64', input: 'numbers' };
const histogram = { kind: 'kernel', kernel: 'histogram', type: 'f32', input: 'x', bins: 8, low: 0, high: 1 };
const dot = { kind: 'kernel', kernel: 'dot_product', type: 'f64', input: 'x', second: 'y' };
const command = { kind: 'command', command: ['./tool', '--part', '{index}', '{output}/x'] };
const input = { artifact: 'data', path: 'data/in.bin' };
const map = { kind: 'map', command: ['cat'], dataset: { artifact: 'rows', format: 'csv' } };
const inference = {
  kind: 'inference',
  model: 'm',
  task: 'chat',
  dataset: { artifact: 'rows', format: 'jsonl' },
};
const gang = { kind: 'gang', script: 'echo $COVEY_RANK', ranks: 2 };

describe('nothing is wrong with', () => {
  test.each([
    kernel,
    histogram,
    dot,
    command,
    { ...command, inputs: [input], command: ['./tool', '{input}', '{input.data/in.bin}', '{{x}'] },
    { ...command, partitions: 5, env: { PART: '{index} of {count}' } },
    { kind: 'command', script: 'awk "{print}"' },
    map,
    { ...map, command: ['head', '{from}', '{to}'] },
    { ...map, command: ['head', '{count}'], partitions: 4 },
    { ...map, dataset: { artifact: 'rows', format: 'binary', recordBytes: 16 } },
    inference,
    { ...inference, task: 'embedding', dataset: { artifact: 'rows', format: 'text' } },
    gang,
    { ...command, distribution: { mode: 'manual', shares: [{ node: 'a', percent: 1 }] } },
  ])('%j', (spec) => expect(fieldsOf(spec)).toEqual([]));
});

test.each([
  [{ ...kernel, kernel: 'xor' }, 'type'],
  [{ ...kernel, second: 'y' }, 'second'],
  [{ ...dot, second: undefined }, 'second'],
  [{ ...kernel, bins: 4 }, 'bins'],
  [{ ...kernel, requires: { cpus: 1000 } }, 'requires.cpus'],
  [{ ...histogram, bins: undefined }, 'bins'],
  [{ ...histogram, high: 0 }, 'high'],
  [{ ...kernel, retry: { exitCodes: [3] } }, 'retry.exitCodes'],
  [{ kind: 'command' }, 'command'],
  [{ ...command, script: 'x' }, 'script'],
  [{ ...command, command: [''] }, 'command.0'],
  [{ ...command, command: ['./tool', '{input}'] }, 'command.1'],
  [{ ...command, command: ['./tool', '{from}'] }, 'command.1'],
  [{ ...command, command: ['awk', '{print}'] }, 'command.1'],
  [{ ...command, env: { A: '{no}' } }, 'env.A'],
  [{ ...command, env: { COVEY_RANK: '1' } }, 'env.COVEY_RANK'],
  [{ ...command, secrets: { COVEY_X: '1' } }, 'secrets.COVEY_X'],
  [{ ...command, secrets: { KEY: '1' }, env: { KEY_FILE: 'x' } }, 'env.KEY_FILE'],
  [{ ...command, inputs: [input, { artifact: 'b', path: 'data' }] }, 'inputs.1.path'],
  [{ ...command, outputs: [{ path: 'a' }, { path: 'a' }] }, 'outputs.1.path'],
  [{ ...map, command: ['x', '{count}'] }, 'command.1'],
  [{ ...map, dataset: { artifact: 'rows', format: 'binary' } }, 'dataset.recordBytes'],
  [{ ...map, dataset: { artifact: 'rows', format: 'csv', recordBytes: 4 } }, 'dataset.recordBytes'],
  [{ ...inference, dataset: { artifact: 'rows', format: 'csv' } }, 'dataset.format'],
  [{ ...inference, task: 'embedding', system: 'x' }, 'system'],
  [{ ...inference, parameters: { stream: true } }, 'parameters.stream'],
  [{ ...gang, perNode: 3 }, 'perNode'],
  [{ ...gang, speculative: true }, 'speculative'],
  [{ ...kernel, speculative: true, exclusive: true }, 'speculative'],
  [{ ...gang, distribution: { mode: 'manual', shares: [{ node: 'a', percent: 1 }] } }, 'distribution.mode'],
  [{ ...kernel, requires: { nodes: ['a', 'a'] } }, 'requires.nodes'],
  [
    {
      ...kernel,
      distribution: {
        mode: 'manual',
        shares: [
          { node: 'a', percent: 1 },
          { node: 'a', percent: 1 },
        ],
      },
    },
    'distribution.shares',
  ],
])('%j: %s', (spec, field) => expect(fieldsOf(spec)).toEqual([field]));
