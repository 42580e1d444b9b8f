import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { exampleJob } from '../../e2e/support/job-views.ts';
import { startScriptedApi, type ScriptedApi } from '../../e2e/support/scripted-api.ts';
import { exampleDeployment, exampleNode } from '../../e2e/support/views.ts';
import { commandTree, everyCommand } from './command-tree.ts';
import { complete, namesAt, readLine } from './completing.ts';
import { completionScript, shells } from './completion.ts';
import { runCli } from './main.ts';
import { manualPage } from './manual.ts';
import { createProgram } from './program.ts';

const tree = commandTree(createProgram(scriptedIo(), '0.1.0', async () => undefined));
const settings = (): string[] => ['lan.port', 'lan.enabled'];
const lists = {
  'config get key': settings,
  'config set key': settings,
  'config unset key': settings,
  'lend set rule': () => ['ram', 'schedule'],
  'jobs templates name': () => ['mpi.yaml'],
};
const names = [
  { word: 'desk', about: '' },
  { word: 'attic', about: '' },
];

/** What is offered after these words, of which the last is being typed, and how. */
function offered(...words: string[]): string[] {
  const current = words.pop() ?? '';
  const line = readLine(tree, words);
  const kinds = namesAt(line, current);
  const found = complete(line, current, kinds.length > 0 ? names : [], lists);
  return [
    ...kinds.map((kind) => `<${kind}>`),
    ...found.words.map(({ word }) => word),
    ...(found.files ? ['<files>'] : []),
    ...(found.open ? ['<open>'] : []),
  ];
}

describe('what is offered', () => {
  test.each([
    [['j'], ['jobs', 'join']],
    [['jobs', 'par'], ['partitions']],
    [
      ['workers', ''],
      ['list', 'stats', 'info', 'ping'],
    ],
    [['--data', 'x', 'jobs', 'ret'], ['retry']],
    [['--data=x', 'jobs', 'ret'], ['retry']],
    [
      ['run', 'k'],
      ['kernel', '<files>'],
    ],
    [['run', 'kernel', 'hist'], ['histogram']],
    [
      ['run', 'kernel', 'sum', ''],
      ['<artifacts>', 'desk', 'attic', '<files>'],
    ],
    [['run', 'kernel', 'sum', 'x', '--ty'], ['--type']],
    [
      ['run', 'kernel', 'sum', 'x', '--type', 'f'],
      ['f32', 'f64'],
    ],
    [
      ['run', 'kernel', 'sum', 'x', '--type=f'],
      ['--type=f32', '--type=f64'],
    ],
    [['run', 'command', '--det'], ['--detach']],
    [['run', 'command', '--', 'x', '--de'], ['<files>']],
    [
      ['run', 'command', '--nodes', 'desk,at'],
      ['<nodes>', 'desk,attic', '<open>'],
    ],
    [
      ['load', 'm', '--split', 'desk=60,'],
      ['<nodes>', 'desk=60,desk=', 'desk=60,attic=', '<open>'],
    ],
    [
      ['jobs', 'info', ''],
      ['<jobs>', 'desk', 'attic'],
    ],
    [
      ['jobs', 'info', 'x', ''],
      ['--watch', '--version', '--api', '--data', '--json', '--help'],
    ],
    [
      ['jobs', 'list', '--status', 'c'],
      ['cancelling', 'cancelled'],
    ],
    [
      ['distribution', 'show', ''],
      ['<jobs>', '<deployments>', 'desk', 'attic'],
    ],
    [
      ['distribution', 'set', 'x', 'd'],
      ['<nodes>', 'desk=', '<open>'],
    ],
    [
      ['artifacts', 'rm', 'x', 'y', 'a'],
      ['<artifacts>', 'attic'],
    ],
    [
      ['drain', 'a'],
      ['<nodes>', 'attic'],
    ],
    [
      ['rename', 'desk', ''],
      ['--version', '--api', '--data', '--json', '--help'],
    ],
    [
      ['config', 'set', 'lan.'],
      ['lan.port', 'lan.enabled'],
    ],
    [
      ['config', 'set', 'lan.port', ''],
      ['--version', '--api', '--data', '--json', '--help'],
    ],
    [['lend', 'set', 's'], ['schedule']],
    [['completion', 'b'], ['bash']],
    [['controller', '--le'], ['--lend']],
    [['compl'], ['completion']],
    [
      ['nonsense', ''],
      ['--version', '--api', '--data', '--json', '--help'],
    ],
  ])('after %j', (words, expected) => expect(offered(...words)).toEqual(expected));

  test('in every place something, but where only a person knows what', () => {
    const free: string[] = [];
    for (const node of everyCommand(tree)) {
      for (const [index, operand] of node.operands.entries()) {
        const before = [...node.path.slice(1), ...Array.from({ length: index }, () => 'x')];
        const found = offered(...before, '').filter((word) => !word.startsWith('--'));
        if (found.length === 0) free.push(`${node.path.slice(1).join(' ')} ${operand}`);
      }
    }
    expect(free).toEqual([
      'approve <code...>',
      'join [controller]',
      'rename <name>',
      'lend set <value>',
      'pull <source>',
      'keys create <name>',
      'config set <value>',
    ]);
  });
});

describe('names', () => {
  let api: ScriptedApi;
  let delayMs = 0;
  beforeAll(async () => {
    const later = <T>(value: T) => new Promise<T>((done) => setTimeout(() => done(value), delayMs));
    api = await startScriptedApi({
      nodes: () => later({ nodes: [exampleNode(), exampleNode({ name: 'de\u001b[31m' })] }),
      jobs: () => ({ jobs: [exampleJob({ name: 'a sum' })], total: 1, more: false }),
      deployments: () => ({ deployments: [exampleDeployment()] }),
      artifacts: () => ({
        artifacts: [
          {
            ...{ id: 'd'.repeat(64) as ArtifactId, kind: 'file', name: 'my numbers', bytes: 9, files: 1 },
            ...{ createdAt: 1, lastUsedAt: 1, pinned: true, jobs: [], holders: [], collectableAt: null },
          },
        ],
        total: 1,
        unneeded: { due: 0, dueBytes: 0, later: 0, laterBytes: 0, nextAt: null },
        usedBytes: 0,
        quotaBytes: 1,
      }),
    });
  });
  afterAll(() => api.close());

  const ask = async (current: string, ...before: string[]) => {
    const io = scriptedIo({ env: {} });
    const code = await runCli(['complete', `--current=${current}`, '--', ...before], io);
    return { code, out: io.stdout(), err: io.stderr() };
  };

  test('are those of the covey of the line, without what could change a terminal', async () => {
    expect(await ask('d', '--data', api.dataDirectory, 'drain')).toEqual({
      code: 0,
      out: 'words\ndesk\tready\n',
      err: '',
    });
    expect((await ask('', '--data', api.dataDirectory, 'jobs', 'cancel')).out).toBe(
      'words\nj-1a2b3c4d\trunning: a sum\n',
    );
    expect((await ask('s', `--data=${api.dataDirectory}`, 'unload')).out).toBe(
      'words\nstories260K\tready: d-1a2b3c4d\n',
    );
  });

  test('are left out in silence where nobody answers, in time or at all', async () => {
    for (const before of [
      ['--data', '/nowhere/at/all'],
      ['--api', ':::'],
      ['--api', '127.0.0.1:1'],
    ]) {
      expect(await ask('', ...before, 'drain')).toEqual({ code: 0, out: 'words\n', err: '' });
    }
    // One of two is there: what it needs is offered.
    const { out } = await ask('', '--data', api.dataDirectory, 'load');
    expect(out).toBe('files\n');
    delayMs = 3_000;
    const from = performance.now();
    expect(await ask('', '--data', api.dataDirectory, 'drain')).toEqual({ code: 0, out: 'words\n', err: '' });
    expect(performance.now() - from).toBeLessThan(1_000);
    delayMs = 0;
  });

  describe('in bash itself', () => {
    let directory: string;
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), 'covey-completion-'));
      const entry = resolve(import.meta.dirname, '..', 'covey.ts');
      const lines = ['#!/bin/sh', `exec '${process.execPath}' '${entry}' "$@"`, ''];
      writeFileSync(join(directory, 'covey'), lines.join('\n'));
      chmodSync(join(directory, 'covey'), 0o700);
      mkdirSync(join(directory, 'my data'));
      writeFileSync(join(directory, 'my data.f64'), '');
    });
    afterAll(() => rmSync(directory, { recursive: true }));

    /** What bash would put in place of the word at the cursor, which is the last; words as bash itself cuts them. */
    async function completed(...words: string[]): Promise<string[]> {
      const script = `${completionScript('bash')}
compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _covey; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const args = ['--norc', '-c', script, 'bash', 'covey', ...words];
      const { stdout, stderr } = await promisify(execFile)('bash', args, {
        cwd: directory,
        timeout: 30_000,
        env: { PATH: `${directory}:${process.env['PATH']}`, COVEY_DATA: api.dataDirectory },
      });
      expect(stderr).toBe('');
      return stdout.split('\n').filter(Boolean);
    }

    test('commands, names, values and files', async () => {
      const found = await Promise.all([
        completed('jobs', 'par'),
        completed('drain', 'd'),
        completed('run', 'kernel', 'sum', 'x', '--type', '=', 'f'),
        completed('load', 'm', '--split', 'desk', '=', '60,'),
        completed('load', 'm', '--split', 'desk', '='),
        completed('--api', '127.0.0.1', ':', '1', 'drain', 'd'),
        completed('run', 'kernel', 'sum', 'my'),
        completed('jobs', 'info', ''),
        completed('artifacts', 'get', 'm'),
      ]);
      expect(found).toEqual([
        ['partitions'],
        ['desk'],
        ['f32', 'f64'],
        ['60,desk='],
        [],
        [],
        ['my numbers', 'my data', 'my data.f64'],
        ['j-1a2b3c4d'],
        ['my\\ numbers'],
      ]);
    }, 60_000);
  });
});

test.each(shells)('the script for %s asks the command', (shell) => {
  expect(completionScript(shell)).toMatch(/ complete "--current=/);
});

test('the manual page has every command and option, and no line that roff would take for its own', () => {
  const page = manualPage(tree, '0.1.0');
  for (const { path, options } of everyCommand(tree)) {
    expect(page).toContain(path.slice(1).join(' ').replaceAll('-', '\\-'));
    for (const { name } of options) expect(page).toContain(name.replaceAll('-', '\\-'));
  }
  const requests = new Set(page.split('\n').flatMap((line) => /^[.']\S*/.exec(line)?.[0] ?? []));
  expect([...requests].sort()).toEqual(['.B', '.RE', '.RI', '.RS', '.SH', '.TH', '.TP']);
});
