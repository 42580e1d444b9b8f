import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { commandTree, everyCommand } from './command-tree.ts';
import { completionScript, shells } from './completion.ts';
import { manualPage } from './manual.ts';
import { createProgram } from './program.ts';

const tree = commandTree(createProgram(scriptedIo(), '0.1.0', async () => undefined));

/** What bash would offer after these words; the last one is being typed. */
function completed(...words: string[]): string[] {
  const script = `${completionScript('bash', tree)}
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _covey; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr, status } = spawnSync('bash', ['-c', script, 'bash', ...words], {
    encoding: 'utf8',
    timeout: 10_000,
  });
  expect(status, stderr).toBe(0);
  return stdout.split('\n').filter(Boolean);
}

describe('completion', () => {
  test('of commands, of their commands, under every name', () => {
    expect(completed('covey', 'j')).toEqual(['jobs', 'join']);
    expect(completed('covey', 'jobs', 'par')).toEqual(['partitions']);
    expect(completed('covey', 'workers', '')).toEqual(
      expect.arrayContaining(['list', 'stats', 'info', 'ping']),
    );
    expect(completed('covey', '--data', 'x', 'jobs', 'ret')).toEqual(['retry']);
  });

  test('of options and closed lists of values', () => {
    expect(completed('covey', 'run', 'kernel', 'hist')).toEqual(['histogram']);
    expect(completed('covey', 'run', 'kernel', 'sum', 'x', '--ty')).toEqual(['--type']);
    expect(completed('covey', 'run', 'kernel', 'sum', 'x', '--type', 'f')).toEqual(['f32', 'f64']);
    expect(completed('covey', 'controller', '--le')).toEqual(['--lend']);
  });

  test.each(shells)('for %s has every word of every command', (shell) => {
    const script = completionScript(shell, tree);
    for (const { path } of everyCommand(tree)) expect(script).toContain(path.at(-1));
  });
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
