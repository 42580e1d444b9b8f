import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
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

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly asked: number;
  readonly plain: (text: string) => string;
}

async function run(scene: GoldenScene, before: string): Promise<Ran> {
  if (scene.machine) return runOnMachine(scene, scene.machine, before);
  const io = scriptedIo({ answers: scene.answers ?? [], ...workingIn(scene) });
  const { code, stdout, stderr, api } = await covey(`${before}${scene.words}`, scene.scripts, io);
  const plain = (text: string): string =>
    text
      .replaceAll(api.url, 'http://127.0.0.1:7878')
      .replaceAll(api.dataDirectory, '/data')
      .replaceAll(io.workingDirectory, '/somewhere')
      .replaceAll('URL', 'http://127.0.0.1:7878');
  return { code, stdout, stderr, asked: api.requests.length, plain };
}

async function runOnMachine(
  scene: GoldenScene,
  machine: NonNullable<GoldenScene['machine']>,
  before: string,
): Promise<Ran> {
  const directory = mkdtempSync(join(tmpdir(), 'covey-golden-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const [data, here] = [join(directory, 'data'), join(directory, 'here')];
  for (const path of [data, here]) mkdirSync(path, { mode: 0o700 });
  await machine(data, here);
  const env = { COVEY_DATA: data };
  const io = scriptedIo({
    answers: scene.answers ?? [],
    workingDirectory: here,
    env,
    copyDatabase: (source, destination) => copyFile(source, destination),
  });
  const code = await runCli(`${before}${scene.words}`.split(' '), io);
  const plain = (text: string): string =>
    text
      .replaceAll(data, '/data')
      .replaceAll(here, '/somewhere')
      .replaceAll(/\b[0-9a-f]{64}\b/g, 'a'.repeat(64))
      .replaceAll(/\b[0-9a-f]{12}\b/g, 'a'.repeat(12))
      .replaceAll(/\d+(?:\.\d)? [KM]?i?B\b/g, '2.0 KiB');
  return { code, stdout: io.stdout(), stderr: io.stderr(), asked: 0, plain };
}

async function show(
  scene: GoldenScene,
  before = '',
): Promise<{ text: string; code: number; stdout: string; asked: number }> {
  const { code, stdout, stderr, asked, plain } = await run(scene, before);
  const printed = plain(stdout).trimEnd().split('\n');
  const { document = Infinity } = scene;
  const text = [
    `$ covey ${scene.words}`,
    [...printed.slice(0, document), ...(printed.length > document ? ['...'] : [])].join('\n'),
    plain(stderr)
      .trimEnd()
      .split('\n')
      .map((line) => (line === '' ? '' : `! ${line}`))
      .join('\n'),
    `[${code}]`,
  ];
  // With `--json` and in logs, lines are as long as what they show; sentences on standard error wrap by themselves.
  const isLog = /--json|^events|^logs|^jobs logs/.test(`${before}${scene.words}`);
  if (!isLog && scene.document === undefined) {
    for (const line of plain(stdout).split('\n')) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
  }
  return { text: text.filter(Boolean).join('\n'), code, stdout, asked };
}

const commands = [...everyCommand(commandTree(createProgram(scriptedIo(), '0', async () => undefined)))]
  .filter(({ children, path }) => path.length > 1 && (children.length === 0 || path.at(-1) === 'run'))
  .map(({ path }) => path.slice(1).join(' '))
  .filter((name) => name !== 'controller' && name !== 'worker');

test('every command has its case', () => {
  expect(Object.keys(goldenCases).sort()).toEqual(commands.sort());
});

// The words of the issue and of the decisions that go with it, whatever else there is.
const promised = `status devices nodes list|stats|info|ping jobs list|info|stats|partitions|cancel|retry|logs|get tasks run
  distribution show|auto|set artifacts put|get|list|rm|gc models pull load unload deployments events logs doctor config
  invite pending approve deny remove drain resume version completion discover join backup restore keys`;

test('every command that is promised is there', () => {
  const tops = new Set(commands.map((name) => name.split(' ')[0]));
  let group = '';
  for (const word of promised.split(/\s+/)) {
    if (!word.includes('|')) expect(tops).toContain((group = word));
    else for (const one of word.split('|')) expect(commands).toContain(`${group} ${one}`);
  }
});

test('alone it explains itself', async () => {
  const scenes = [
    await show({ words: 'help', scripts: {} }),
    await show({ words: 'jobs --help', scripts: {} }),
    await show({ words: 'jbos', scripts: {} }),
  ];
  expect(scenes.map(({ code, asked }) => [code, asked])).toEqual([
    [0, 0],
    [0, 0],
    [2, 0],
  ]);
  await expect(`${scenes.map(({ text }) => text).join('\n\n')}\n`).toMatchFileSnapshot('goldens/help.txt');
});

describe.each(Object.entries(goldenCases))('covey %s', (name, golden) => {
  const { happy, empty, more = [], wrong, json, jsonLines, offline } = golden;
  test('shows what it always shows', async () => {
    const scenes: string[] = [];
    for (const scene of [happy, ...(empty ? [empty] : []), ...more]) {
      const { text, code } = await show(scene);
      expect(code, text).toBe(scene.code ?? 0);
      scenes.push(text);
    }
    for (const words of typeof wrong === 'string' ? [wrong] : wrong) {
      const misused = await show({ words, scripts: {} });
      expect([misused.code, misused.asked], misused.text).toEqual([2, 0]);
      scenes.push(misused.text);
    }
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
  test('prints data with --json, and nothing else', async () => {
    const { stdout, code, text } = await show(happy, '--json ');
    expect(code, text).toBe(happy.code ?? 0);
    const schema = typeof json === 'string' ? apiRoutes[json].response : json;
    for (const part of jsonLines ? stdout.trimEnd().split('\n') : [stdout]) schema.parse(JSON.parse(part));
  });
});
