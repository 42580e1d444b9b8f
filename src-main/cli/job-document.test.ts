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
    ['', 'job.yaml', 'job.yaml: the document'],
    ['hello', 'job.yaml', 'the document'],
    ['kind: nothing', 'job.yaml', 'kind: must be kernel, command, map, inference or gang.'],
    ['kind: command\ncommand: [x]\ncolour: red', 'job.yaml', 'colour: '],
    ['kind: command\ncommand: [x, "{inptu}"]', 'job.yaml', 'command.1: there is no {inptu} here'],
    ['kind: command', 'job.yaml', 'command: say what runs'],
    ['kind: command\ncommand: [x]\npartitions: 0', 'job.yaml', 'partitions: '],
    ['a: !!js/function "x"', 'job.yaml', 'not YAML'],
  ])('%j of %s is refused: %s', (text, origin, message) => expect(refusal(text, origin)).toContain(message));

  test('names every field that is wrong', () => {
    const text = refusal('kind: kernel\nkernel: summ\ntype: f64\n');
    expect(text).toContain('kernel: ');
    expect(text).toContain('input: ');
  });

  test('with aliases that multiply is refused', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let level = 1; level < 9; level += 1) {
      lines.push(`a${level}: &a${level} [${Array.from({ length: 10 }, () => `*a${level - 1}`).join(', ')}]`);
    }
    expect(refusal(lines.join('\n'))).toContain('alias');
  });
});
