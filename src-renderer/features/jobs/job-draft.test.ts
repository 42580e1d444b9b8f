import { describe, expect, it } from 'vitest';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import { checkDraft, draftOf, emptyDraft, problemOf, type JobDraft } from './job-draft.ts';
import { runCommand } from './run-command.ts';

const draft = (changes: Partial<JobDraft>): JobDraft => ({ ...emptyDraft, ...changes });
const problems = (changes: Partial<JobDraft>) => checkDraft(draft(changes)).problems;
const line = (changes: Partial<JobDraft>): string => runCommand(checkDraft(draft(changes)).body).line;

describe('a draft', () => {
  it('says what is needed, by the field of the specification', () => {
    expect(problems({})).toEqual([{ field: 'input', message: 'is needed' }]);
    expect(problemOf(problems({ kind: 'map', command: 'wc' }), 'dataset.artifact')).toBe('is needed');
    expect(problemOf(problems({ kind: 'inference' }), 'model')).toBe('is needed');
    expect(problemOf(problems({ kind: 'gang', command: 'x', ranks: '' }), 'ranks')).toBe('is needed');
    expect(problemOf(problems({ kind: 'command' }), 'command')).toMatch(/what runs/);
  });

  it('checks what fields need of one another, and what stands in them', () => {
    expect(
      problemOf(problems({ kernel: 'histogram', input: 'a', bins: 4, low: 3, high: 1 }), 'high'),
    ).not.toBeNull();
    expect(problemOf(problems({ kind: 'command', command: 'x {from}' }), 'command')).toMatch(/no \{from\}/);
    expect(problemOf(problems({ kind: 'command', command: 'x "y' }), 'command')).toMatch(/not closed/);
    expect(
      problemOf(problems({ kind: 'command', command: 'x', exitCodes: '7, x' }), 'retry.exitCodes'),
    ).toMatch(/numbers/);
    const twice = [
      { name: 'A', value: '1' },
      { name: 'A', value: '2' },
    ];
    expect(problemOf(problems({ kind: 'command', command: 'x', env: twice }), 'env.A')).toBe(
      'is there twice',
    );
    expect(
      problemOf(problems({ kind: 'inference', model: 'm', dataset: 'd', parameters: '[1]' }), 'parameters'),
    ).toMatch(/JSON/);
    const bad = [{ name: 'A B', value: '1' }];
    expect(problemOf(problems({ kind: 'command', command: 'x', env: bad }), 'env.A B')).toMatch(/letters/);
    expect(problemOf(problems({ kind: 'command', command: 'x', cpus: -1 }), 'requires.cpus')).not.toBeNull();
    expect(problemOf(problems({ input: 'a', cpus: 2 }), 'requires.cpus')).toBeNull();
  });

  it('says nothing of what has its default', () => {
    const { body, spec } = checkDraft(draft({ input: 'data.f64' }));
    expect(body).toEqual({ kind: 'kernel', kernel: 'sum', type: 'f64', input: 'data.f64' });
    expect(spec).toMatchObject({ partitions: 'auto', retry: { attempts: 3 } });
  });

  it('comes back from the specification that it made', () => {
    const examples: Partial<JobDraft>[] = [
      { kernel: 'histogram', type: 'i32', input: 'a', bins: 8, low: 0, high: 9, partitions: 5 },
      {
        kind: 'command',
        command: `./tool 'a b' {index}`,
        inputs: [{ artifact: 'tool', path: 'tool' }],
        outputs: [{ path: 'out', optional: true }],
        env: [{ name: 'A', value: 'b' }],
        partitions: 7,
        attempts: 5,
        exitCodes: '75',
        shares: { nodes: ['anna', 'ben'], percents: [70, 30] },
      },
      {
        kind: 'map',
        runs: 'script',
        script: 'cat',
        dataset: 'd',
        format: 'csv',
        header: false,
        per: 'record',
      },
      {
        kind: 'inference',
        model: 'm',
        dataset: 'd',
        prompt: '{x}',
        parameters: '{"max_tokens":4}',
        timeoutMin: 2,
      },
      { kind: 'gang', command: 'x', ranks: 3, perNode: 1, nodes: ['anna'], os: 'linux', exclusive: true },
    ];
    for (const example of examples) {
      const { spec } = checkDraft(draft(example));
      expect(spec).not.toBeNull();
      expect(checkDraft(draftOf(jobSpecSchema.parse(spec))).spec).toEqual(spec);
    }
  });
});

describe('the command', () => {
  it.each<[Partial<JobDraft>, string]>([
    [{ input: 'data.f64' }, 'covey run kernel sum data.f64 --type f64'],
    [
      { kernel: 'histogram', type: 'i32', input: 'a', bins: 4, low: -2, high: 2, name: 'my bins' },
      `covey run kernel histogram a --type i32 --bins 4 --low=-2 --high 2 --name 'my bins'`,
    ],
    [
      {
        kind: 'command',
        command: './r {index}',
        partitions: 9,
        outputs: [{ path: 'a.png', optional: false }],
      },
      `covey run command --partitions 9 --output a.png -- ./r '{index}'`,
    ],
    [
      { kind: 'map', command: 'wc -l', dataset: 'rows.csv', format: 'csv', header: false, memoryMiB: 64 },
      'covey run map --dataset rows.csv --format csv --no-header --memory 64MB -- wc -l',
    ],
    [
      { kind: 'inference', model: 'tiny', dataset: 'p.jsonl', parameters: '{"max_tokens": 8}' },
      'covey run inference tiny --dataset p.jsonl --format jsonl --max-tokens 8',
    ],
    [
      { kind: 'gang', command: './train', ranks: 4, network: 'lan', shares: null },
      'covey run gang --ranks 4 --network lan -- ./train',
    ],
    [
      { input: 'a', shares: { nodes: ['anna', 'ben'], percents: [60, 40] }, exclusive: true },
      'covey run kernel sum a --type f64 --shares anna=60,ben=40 --exclusive',
    ],
    // What no option says is in a file.
    [{ kind: 'command', runs: 'script', script: 'echo' }, 'covey run job.json'],
    [{ input: 'a', os: 'linux' }, 'covey run job.json'],
  ])('of %j is %s', (changes, expected) => expect(line(changes)).toBe(expected));
});
