import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { begunHere, begunInSandbox, type RunInPlace } from './begun.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-begun-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** The shell of this machine in place of the one in a sandbox. */
const runHere: RunInPlace = (command, tail) =>
  new Promise((ended, fail) => {
    const [program = '', ...words] = command;
    const child = spawn(program, words, {
      ...{ cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] },
      env: { PATH: `${directory}:${process.env['PATH'] ?? ''}` },
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => tail.push(chunk));
    child.on('error', fail);
    child.on('close', (code, signal) => ended({ code, signal, exceeded: null }));
  });

describe.skipIf(process.platform === 'win32').each([
  ['in a sandbox', (name: string) => begunInSandbox(name, runHere)],
  ['here', (name: string) => begunHere(name, `${directory}:${process.env['PATH'] ?? ''}`, directory)],
])('a program that may not have begun, looked for %s', (_where, look) => {
  const script = async (content: string | Buffer): Promise<void> => {
    await writeFile(join(directory, 'script'), content);
    await chmod(join(directory, 'script'), 0o755);
  };

  it('is missing, or not to be executed', async () => {
    await writeFile(join(directory, 'plain'), '#!/bin/sh\n');
    for (const name of ['no-such-program', './no-such-program', '/no/such/program', './plain']) {
      expect(await look(name), name).toEqual({ type: 'no-program' });
    }
  });

  it.each([
    ['#!/no/such/python -u\nprint(1)\n', '/no/such/python'],
    ['#! \t/no/such/sh', '/no/such/sh'],
    ['#!/bin/sh\r\nexit 0\r\n', '/bin/sh\r'],
    ['#!here/python *\n', 'here/python'],
    ['#!$(touch made)\n', '$(touch'],
  ])('is a script without its interpreter: %j', async (content, interpreter) => {
    await script(content);
    for (const name of ['script', './script', join(directory, 'script')]) {
      expect(await look(name), name).toEqual({ type: 'no-interpreter', interpreter });
    }
  });

  it.each([
    '#!/bin/sh\nexit 0\n',
    '#! /usr/bin/env -S sh -e\n',
    '#!\n',
    '# no\n#!/no/such/python\n',
    'exit 0\n',
    '',
    Buffer.concat([Buffer.from('\u007fELF'), Buffer.alloc(4_096)]),
  ])('is there: %j', async (content) => {
    await script(content);
    for (const name of ['script', './script']) expect(await look(name), name).toEqual({ type: 'unknown' });
    expect(await look('sh')).toEqual({ type: 'unknown' });
  });
});
