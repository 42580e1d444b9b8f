import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { kernelTypes } from '#shared/domain/kernel-call.ts';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';
import { commandTree, everyCommand } from './command-tree.ts';
import { kernelHelp, wrapLines } from './help-text.ts';
import { lendValues } from './lend-values.ts';
import { createProgram } from './program.ts';
import { displayWidth } from './text.ts';

const { covey } = useCovey();

const commands = [...everyCommand(commandTree(createProgram(scriptedIo(), '0', async () => undefined)))]
  .map(({ path }) => path.slice(1).join(' '))
  .filter((name) => name !== 'controller' && name !== 'worker');

test.each(commands)('the help of "covey %s" fits 80 columns and is for people', async (name) => {
  const { code, stdout } = await covey(`${name} --help`.trim());
  expect(code).toBe(0);
  for (const line of stdout.split('\n')) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
  expect(stdout).not.toMatch(/default:\s+(?:\[|\{|false|true|")|choices:/);
});

test.each(commands)('no line of the help of "covey %s" was broken twice', async (name) => {
  const { stdout } = await covey(`${name} --help`.trim());
  const lines = stdout.split('\n');
  // The rest of a line that was too long is short, and what follows it begins at the left again.
  for (const [index, line] of lines.entries()) {
    const [before = '', next = ''] = [lines[index - 1], lines[index + 1]];
    const inside = [before, line, next].every((one) => /^[^\s:]/.test(one) && !one.endsWith(':'));
    if (inside) expect(displayWidth(line), `${before}\n${line}\n${next}`).toBeGreaterThan(40);
  }
});

test('the rules of "covey lend set" stand in columns of which the last goes on below itself', async () => {
  const rows = (await covey('lend set --help')).stdout.split('Rules:\n')[1]?.trimEnd().split('\n') ?? [];
  const does = rows[0]?.indexOf('processor threads') ?? 0;
  expect(rows.length).toBeGreaterThan(lendValues.length);
  for (const row of rows) {
    expect(row.slice(does - 2, does), row).toBe('  ');
    expect(row.slice(does, does + 1), row).toMatch(/\S/);
  }
});

test('of a kernel it has those that there are, and so has the documentation', async () => {
  const { stdout } = await covey('run kernel --help');
  expect(stdout).toContain(kernelHelp().trim().split('\n')[0]);
  const jobs = readFileSync(new URL('../../docs/jobs.md', import.meta.url), 'utf8').replaceAll(/ +/g, ' ');
  for (const [kernel, types] of Object.entries(kernelTypes)) {
    expect(stdout).toMatch(new RegExp(`^ {2}${kernel} +${types.join(' ')}$`, 'm'));
    expect(jobs).toContain(`| \`${kernel}\` | ${types.join(', ')} |`);
  }
});

test.each([
  ['run inference', ['--record-bytes', '--no-header', 'csv', 'binary']],
  ['run kernel', ['--cpus']],
  ['run gang', ['--shares']],
])('%s offers nothing that is then refused', async (name, refused) => {
  const { stdout } = await covey(`${name} --help`);
  for (const word of refused) expect(stdout).not.toContain(word);
});

test('a word that is none of a list is said so plainly', async () => {
  const { code, stderr } = await covey('completion foo');
  expect(code).toBe(2);
  expect(stderr).toContain("error: 'foo' is no shell. There are: bash, zsh, fish, powershell.\n");
});

test.each([
  ['run command /bin/echo hi -x', true],
  ['run gang --ranks 2 mpirun -np', true],
  ['run command --partitons 3 ./tool', false],
  ['run kernel sum a.f64 -x', false],
])('"covey %s" is told where options of a program go: %s', async (words, told) => {
  const { code, stderr, api } = await covey(words);
  expect([code, api.requests]).toEqual([2, []]);
  expect(stderr).toMatch(/^error: unknown option/);
  expect(stderr.includes('The program and its arguments come after "--"'), stderr).toBe(told);
});

describe('long lines', () => {
  const long = 'a sentence that goes on and on, '.repeat(6).trim();
  const scripts = {
    node: () => {
      const reasons = [{ code: 'no_nodes' as const, message: `because ${long}` }];
      throw new CoveyError('placement_refused', `No: ${long}`, { reasons });
    },
  };

  test('are broken on a terminal, at its width, below where they begin', async () => {
    const { stderr } = await covey('nodes info x', scripts, scriptedIo({ errIsTty: true, columns: 60 }));
    const lines = stderr.trimEnd().split('\n');
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) expect(displayWidth(line), line).toBeLessThanOrEqual(60);
    expect(stderr).toMatch(/^ {2}- because a sentence.*\n {4}\S/m);
  });

  test('are left alone elsewhere', async () => {
    const { stderr } = await covey('nodes info x', scripts);
    expect(stderr.trimEnd().split('\n')).toHaveLength(2);
  });

  test('are left alone where they move the cursor', () => {
    expect(wrapLines(`\r\u001b[K${long}`, 40)).toBe(`\r\u001b[K${long}`);
  });
});
