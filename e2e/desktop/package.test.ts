import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { checkout } from '../support/checkout.ts';
import { startProcess } from '../support/managed-process.ts';
import { withDeadline, waitFor } from '../support/wait.ts';
import { makeStandInDistribution } from './stand-in-distribution.ts';

interface ReleaseParts {
  readonly checkPackage: (app: { program: string; resources: string }) => string[];
  readonly readAsar: (file: string) => { files: Map<string, { read: () => Buffer }> };
}

const out = path.join(checkout, 'build', 'release', 'out');
const unpacked = path.join(out, 'linux-unpacked');
const app = { program: path.join(unpacked, 'covey-desktop'), resources: path.join(unpacked, 'resources') };
const minutes = 60_000;

async function parts(): Promise<ReleaseParts> {
  const load = (name: string): Promise<unknown> =>
    import(pathToFileURL(path.join(checkout, 'scripts', 'release', name)).href);
  return {
    ...((await load('check-package.mjs')) as object),
    ...((await load('asar.mjs')) as object),
  } as ReleaseParts;
}

/** The packages themselves; what is in them runs on Node.js, since Electron's own program is a stand-in. */
describe.skipIf(process.platform !== 'linux')('packages', () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'covey-package-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  beforeAll(async () => {
    const distribution = path.join(directory, 'electron');
    const { devDependencies } = z
      .object({ devDependencies: z.record(z.string(), z.string()) })
      .parse(JSON.parse(readFileSync(path.join(checkout, 'package.json'), 'utf8')));
    makeStandInDistribution(distribution, devDependencies['electron'] ?? '');
    const release = startProcess({
      label: 'release',
      argv: [
        process.execPath,
        path.join(checkout, 'scripts', 'release.mjs'),
        ...['--targets', 'dir', '--electron-dist', distribution],
      ],
    });
    const { code } = await withDeadline('the release', release.exited, 8 * minutes);
    expect(code, release.output()).toBe(0);
  }, 9 * minutes);

  test('the app holds what it needs and nothing else', async () => {
    const { checkPackage } = await parts();
    expect(checkPackage(app)).toEqual([]);
  });

  test('the check finds what is wrong', async () => {
    const { checkPackage } = await parts();
    const broken = path.join(directory, 'broken');
    cpSync(app.resources, broken, { recursive: true });
    rmSync(path.join(broken, 'THIRD-PARTY.txt'));
    writeFileSync(path.join(broken, 'engine', 'libggml-extra.so'), 'x');
    writeFileSync(path.join(broken, 'engine', 'covey-launch'), 'changed');
    const problems = checkPackage({
      program: path.join(directory, 'electron', 'electron'),
      resources: broken,
    });
    expect(problems).toContain('THIRD-PARTY.txt is not among the resources.');
    expect(problems).toContain('the engine has libggml-extra.so, which its manifest does not list.');
    expect(problems).toContain('covey-launch of the engine has other content than its manifest says.');
    expect(problems.some((problem) => problem.startsWith('the fuse onlyLoadAppFromAsar'))).toBe(true);
  });

  test('what is in the archive starts', async () => {
    const { readAsar } = await parts();
    const extracted = path.join(directory, 'app');
    for (const [name, file] of readAsar(path.join(app.resources, 'app.asar')).files) {
      const target = path.join(extracted, name);
      mkdirSync(path.dirname(target), { recursive: true });
      writeFileSync(target, file.read());
    }
    await startsAndStops([process.execPath, path.join(extracted, 'dist', 'covey.js')], directory);
  });

  test('the archive without a window starts, with its own Node.js and engine', async () => {
    const name = readdirSync(out).find((file) => file.includes('-headless-'));
    execFileSync('tar', ['-xzf', path.join(out, name ?? ''), '-C', directory]);
    const place = readdirSync(directory).find((file) => /^covey-\d/.test(file)) ?? '';
    const command = path.join(directory, place, 'bin', 'covey');
    expect(execFileSync(command, ['--version'], { encoding: 'utf8' })).toMatch(/^\d+\.\d+\.\d+/);
    for (const file of ['install.sh', 'install.ps1', 'THIRD-PARTY.txt', 'LICENSE', 'engine/manifest.json']) {
      expect(existsSync(path.join(directory, place, file)), file).toBe(true);
    }
    const log = await startsAndStops([command], directory);
    expect(log).not.toContain('there is no engine');
  });

  test('sums are those of the files', () => {
    const lines = readFileSync(path.join(out, 'SHA256SUMS'), 'utf8').trim().split('\n');
    expect(lines.map((line) => line.split('  ')[1]).sort()).toEqual(
      readdirSync(out)
        .filter((name) => name.endsWith('.tar.gz'))
        .sort(),
    );
    expect(() => execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: out })).not.toThrow();
  });
});

/** Runs a controller that lends its machine until it says that it is up. Resolves to what it printed. */
async function startsAndStops(command: readonly [string, ...string[]], directory: string): Promise<string> {
  const data = mkdtempSync(path.join(directory, 'data-'));
  const controller = startProcess({
    label: 'packaged controller',
    argv: [
      ...command,
      ...['controller', '--lend', '--data', data, '--no-discovery', '--json', '--exit-with-parent'],
      ...['--api', '127.0.0.1:0', '--cluster', '127.0.0.1:0'],
    ] as [string, ...string[]],
    env: { PATH: process.env['PATH'], HOME: directory },
  });
  try {
    const { apiAddress } = await waitFor(
      'the controller',
      () => {
        if (controller.hasExited) throw new Error(controller.output());
        const line = controller.stdout().split('\n')[0];
        return line ? (JSON.parse(line) as { apiAddress: string }) : null;
      },
      30_000,
    );
    for (const page of ['/', '/machine']) {
      expect((await fetch(apiAddress + page)).status, page).toBe(200);
    }
  } finally {
    await controller.stop();
  }
  return controller.output();
}
