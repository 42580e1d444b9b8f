import { describe, expect, test } from 'vitest';
import { UsageError } from './failure.ts';
import { readJobDocument } from './job-document.ts';

function refusal(text: string, origin = 'job.yaml'): string {
  try {
    readJobDocument(text, origin);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('a document', () => {
  test('in YAML and in JSON is the same job, defaults filled in', () => {
    const yaml = readJobDocument(
      'kind: map\ncommand: [tr, a-z, A-Z]\ndataset:\n  artifact: ./rows.csv\n  format: csv\npartitions: 8\n',
      'job.yaml',
    );
    const json = readJobDocument(
      '{"kind":"map","command":["tr","a-z","A-Z"],"dataset":{"artifact":"./rows.csv","format":"csv"},"partitions":8}',
      'job.json',
    );
    expect(yaml).toEqual(json);
    expect(yaml).toMatchObject({ per: 'chunk', distribution: { mode: 'auto' }, dataset: { header: true } });
  });

  test.each([
    ['kind: [', 'job.yaml', 'job.yaml is not YAML'],
    ['kind: kernel\nkind: map\n', 'job.yaml', 'unique'],
    ['{"kind":', 'job.json', 'job.json is not JSON'],
    ['', 'job.yaml', 'job.yaml is empty.'],
    [' \n', 'job.json', 'job.json is empty.'],
    ['hello', 'job.yaml', 'the document'],
    ['kind: nothing', 'job.yaml', 'kind: must be kernel, command, map, inference or gang.'],
    ['kind: command\ncommand: [x]\ncolour: red', 'job.yaml', 'colour: there is no such field here.'],
    [
      'kind: command\ncommand: [x]\npartition: 2',
      'job.yaml',
      'partition: there is no such field here; did you mean partitions?',
    ],
    ['kind: kernel\ncommand: [x]\nranks: 2', 'job.yaml', 'ranks: there is no such field here.'],
    [
      'kind: command\ncommand: [x]\nretry: { atempts: 2 }',
      'job.yaml',
      'retry.atempts: there is no such field here; did you mean attempts?',
    ],
    [
      'kind: command\ncommand: [x]\ndistribution: { mode: manual, shares: [{ nod: a, percent: 1 }] }',
      'job.yaml',
      'did you mean node?',
    ],
    ['kind: command\ncommand: echo hi', 'job.yaml', 'command: must be a list, as in [echo, hi].'],
    [
      'kind: kernel\nkernel: som\ntype: f64\ninput: x',
      'job.yaml',
      'kernel: must be sum, xor, dot_product, min, max or histogram; did you mean sum?',
    ],
    ['kind: command\ncommand: [x]\ntimeoutMs: "1"', 'job.yaml', 'timeoutMs: must be a number.'],
    ['kind: command\ncommand: []', 'job.yaml', 'command: must have at least 1 entry.'],
    [
      'kind: command\ncommand: [x]\ndistribution: { mode: x }',
      'job.yaml',
      'distribution.mode: must be auto or manual.',
    ],
    ['kind: command\ncommand: [x, "{inptu}"]', 'job.yaml', 'command.1: there is no {inptu} here'],
    ['kind: command', 'job.yaml', 'command: say what runs'],
    ['kind: command\ncommand: [x]\npartitions: 0', 'job.yaml', 'partitions: '],
    ['a: !!js/function "x"', 'job.yaml', 'not YAML'],
  ])('%j of %s is refused: %s', (text, origin, message) => expect(refusal(text, origin)).toContain(message));

  test('names every field that is wrong', () => {
    const text = refusal('kind: kernel\nkernel: summ\ntype: f64\n');
    expect(text).toContain('kernel: ');
    expect(text).toContain('input: is missing.');
  });

  test('says one thing of a field, and no bound that nobody has set', () => {
    const text = refusal(
      'kind: command\ncommand: [x]\npriority: 1e20\nretry: { backoffMs: 1e300, attempts: 1.5 }\n',
    );
    expect(text.split('\n')).toEqual([
      'job.yaml: retry.attempts: must be a whole number.',
      '  retry.backoffMs: must be at most 60000.',
      '  priority: must be at most 100.',
    ]);
  });

  test('that is not YAML ends with a full stop', () => {
    expect(refusal('kind: [')).toMatch(/[^:]\.?$/);
    expect(refusal('a: b: c')).not.toMatch(/:\.?$/);
  });

  test('with braces of its own is told of scripts', () => {
    const hint = (): string => {
      try {
        readJobDocument('kind: command\ncommand: [awk, "{print $1}"]', 'job.yaml');
      } catch (error) {
        return (error as UsageError).hint;
      }
      return '';
    };
    expect(hint()).toBe('A script may hold any braces: give `script` in place of `command`.');
  });

  test('with aliases that multiply is refused', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let level = 1; level < 9; level += 1) {
      lines.push(`a${level}: &a${level} [${Array.from({ length: 10 }, () => `*a${level - 1}`).join(', ')}]`);
    }
    expect(refusal(lines.join('\n'))).toContain('alias');
  });
});
