import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { accessSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sandbox } from '#shared/host/task-runner.ts';
import { runCommand } from '../../../../src-main/nodejs/run-command.ts';
import { optionsFd, sandboxedStart } from './bubblewrap.ts';

const probeMs = 10_000;

/**
 * Whether programs can be kept apart here: bubblewrap is there and a program was seen to run in exactly the sandbox
 * that tasks get. Takes some hundredths of a second. Never rejects.
 * @returns why not, as a sentence, when `sandbox` is none
 */
export async function probeSandbox(
  searchPath = process.env['PATH'] ?? '',
): Promise<{ readonly sandbox: Sandbox; readonly problem: string | null }> {
  if (process.platform !== 'linux') {
    return { sandbox: { kind: 'none' }, problem: 'There is no sandbox for programs on this system.' };
  }
  const path = findIn(searchPath, 'bwrap');
  if (path === null) {
    return {
      sandbox: { kind: 'none' },
      problem: 'bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap).',
    };
  }
  const directory = await mkdtemp(join(tmpdir(), 'covey-sandbox-'));
  try {
    const workDirectory = join(directory, 'work');
    const outputDirectory = join(directory, 'output');
    await Promise.all([mkdir(workDirectory), mkdir(outputDirectory)]);
    const { argv, options } = sandboxedStart(
      path,
      {
        workDirectory,
        outputDirectory,
        readOnly: [],
        hidden: [],
        network: false,
        temporaryBytes: 2 ** 20,
        environment: {},
      },
      ['/bin/sh', '-c', 'echo inside'],
    );
    const optionsFile = join(directory, 'options');
    await writeFile(optionsFile, options);
    const withOptions = `exec ${optionsFd}< "$0" && exec "$@"`;
    const ran = await runCommand('/bin/sh', ['-c', withOptions, optionsFile, ...argv], probeMs);
    if (ran.ok && ran.code === 0 && ran.stdout.trim() === 'inside') {
      return { sandbox: { kind: 'bubblewrap', path }, problem: null };
    }
    const why = ran.ok ? (ran.stderr.trim().split('\n')[0] ?? '') : ran.reason;
    return {
      sandbox: { kind: 'none' },
      problem: `bubblewrap does not work here${why === '' ? '' : `: ${why.slice(0, 300)}`}.`,
    };
  } catch (error) {
    return { sandbox: { kind: 'none' }, problem: `bubblewrap could not be tried: ${String(error)}` };
  } finally {
    await rm(directory, { recursive: true, force: true }).catch(() => undefined);
  }
}

function findIn(searchPath: string, name: string): string | null {
  for (const directory of [...searchPath.split(':'), '/usr/bin', '/usr/local/bin']) {
    if (!directory.startsWith('/')) continue;
    try {
      accessSync(join(directory, name), constants.X_OK);
      return join(directory, name);
    } catch {
      // Not there.
    }
  }
  return null;
}
