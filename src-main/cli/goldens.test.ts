import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { apiRoutes } from '#shared/api/schema.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { goldenCases } from '../../e2e/support/golden-cases.ts';
import type { GoldenScene } from '../../e2e/support/goldens/golden-case.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';
import { commandTree, everyCommand } from './command-tree.ts';
import { runCli } from './main.ts';
import { createProgram } from './program.ts';
import { displayWidth } from './text.ts';

/**
 * What every command shows, at 80 columns, in `goldens/`: with something there, with nothing there, without a
 * controller, and when it is used wrongly. `vitest -u` writes them anew; the difference is to be read.
 */
const { covey } = useCovey();
/** A data directory on which no node runs. */
let idle: string;
beforeAll(() => {
  idle = mkdtempSync(join(tmpdir(), 'covey-idle-'));
});
afterAll(() => rmSync(idle, { recursive: true }));

/** A directory of its own for a scene that reads or writes files. */
function workingIn({ files }: GoldenScene): { workingDirectory?: string } {
  if (!files) return {};
  const workingDirectory = mkdtempSync(join(tmpdir(), 'covey-golden-'));
  onTestFinished(() => rmSync(workingDirectory, { recursive: true }));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(workingDirectory, name), content);
  return { workingDirectory };
}

async function show(
  scene: GoldenScene,
  more = '',
): Promise<{ text: string; code: number; stdout: string; asked: number }> {
  const io = scriptedIo({ answers: scene.answers ?? [], ...workingIn(scene) });
  const { code, stdout, stderr, api } = await covey(`${scene.words}${more}`, scene.scripts, io);
  const plain = (text: string): string =>
    text
      .replaceAll(api.url, 'http://127.0.0.1:7878')
      .replaceAll(api.dataDirectory, '/data')
      .replaceAll(io.workingDirectory, '/somewhere')
      .replaceAll('URL', 'http://127.0.0.1:7878');
  const text = [
    `$ covey ${scene.words}`,
    plain(stdout).trimEnd(),
    plain(stderr)
      .trimEnd()
      .split('\n')
      .map((line) => (line === '' ? '' : `! ${line}`))
      .join('\n'),
    `[${code}]`,
  ];
  // With `--json` and in logs, lines are as long as what they show; sentences on standard error wrap by themselves.
  if (!/--json|^events|^logs|^jobs (?:logs|schema)/.test(`${scene.words}${more}`)) {
    for (const line of plain(stdout).split('\n')) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
  }
  return { text: text.filter(Boolean).join('\n'), code, stdout, asked: api.requests.length };
}

const commands = [...everyCommand(commandTree(createProgram(scriptedIo(), '0', async () => undefined)))]
  .filter(({ children, path }) => path.length > 1 && (children.length === 0 || path.at(-1) === 'run'))
  .map(({ path }) => path.slice(1).join(' '))
  .filter((name) => name !== 'controller' && name !== 'worker');

test('every command has its case', () => {
  expect(Object.keys(goldenCases).sort()).toEqual(commands.sort());
});

describe.each(Object.entries(goldenCases))('covey %s', (name, { happy, empty, wrong, json, offline }) => {
  test('shows what it always shows', async () => {
    const scenes: string[] = [];
    for (const scene of empty ? [happy, empty] : [happy]) {
      const { text, code } = await show(scene);
      expect(code, text).toBe(scene.code ?? 0);
      scenes.push(text);
    }
    const misused = await show({ words: wrong, scripts: {} });
    expect([misused.code, misused.asked], misused.text).toEqual([2, 0]);
    scenes.push(misused.text);
    const file = `goldens/${name.replaceAll(' ', '-')}.txt`;
    await expect(`${scenes.join('\n\n')}\n`).toMatchFileSnapshot(file);
  });

  if (!offline) {
    test('ends with 3 when no controller can be reached', async () => {
      const io = scriptedIo({
        answers: happy.answers ?? [],
        env: { COVEY_DATA: idle },
        ...workingIn(happy),
      });
      expect(await runCli(happy.words.split(' '), io), io.stderr()).toBe(3);
      expect(io.stderr()).toContain(`No covey runs on ${idle}.`);
      expect(io.stdout()).toBe('');
    });
  }

  if (json === null) return;
  test('prints the answer as it is with --json', async () => {
    const { stdout, code, text } = await show(happy, ' --json');
    expect(code, text).toBe(happy.code ?? 0);
    apiRoutes[json].response.parse(JSON.parse(stdout));
  });
});
