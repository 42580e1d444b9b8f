import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engineDirectory } from '../../e2e/support/checkout.ts';
import {
  descendantsOf,
  listProcesses,
  processInfo,
  stillRuns,
  type ProcessInfo,
} from '../../e2e/support/processes.ts';
import { waitFor } from '../../e2e/support/wait.ts';

const launcher = (): string => join(engineDirectory(), 'covey-launch');
const node = process.execPath;
/** Of keyctl(2) on this system. */
const keyNumber = { x64: 250, arm64: 219 }[process.arch as string] ?? null;
/** What the launcher promises to be done after its parent's death. */
const deathMs = 1_000;

let directory: string;
const started: ChildProcess[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-launch-'));
});
afterEach(async () => {
  for (const child of started.splice(0)) {
    const doomed = [child.pid ?? 0, ...descendantsOf(child.pid ?? 0).map((process) => process.pid)];
    for (const pid of doomed) if (pid > 1) kill(pid);
  }
  await rm(directory, { recursive: true, force: true });
});

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function launch(...args: string[]): { code: number | null; stdout: string; stderr: string } {
  const result = spawnSync(launcher(), args, { encoding: 'utf8', timeout: 20_000, input: 'from stdin' });
  return { code: result.status, stdout: result.stdout, stderr: result.stderr };
}

/** The process group of a process: the third field after the name in /proc. */
function groupOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]);
}

/**
 * Starts a Node.js process that starts `program` through the launcher; gives the first, and what `program` is once it
 * has written its pid to a file.
 */
async function startFamily(
  program: string,
  options: readonly string[] = [],
): Promise<{ parent: ChildProcess; child: ProcessInfo }> {
  const pidFile = join(directory, 'pid');
  const childCode = `require('fs').writeFileSync(${JSON.stringify(pidFile)}, String(process.pid)); ${program}`;
  const parentCode = `
    const options = ${JSON.stringify(options)}.map((text) => text.replace('SELF', String(process.pid)));
    require('child_process').spawn(${JSON.stringify(launcher())},
      [...options, ${JSON.stringify(node)}, '-e', ${JSON.stringify(childCode)}], { stdio: 'ignore' });
    setInterval(() => {}, 1000);`;
  const parent = spawn(node, ['-e', parentCode], { stdio: 'ignore' });
  started.push(parent);
  const child = await waitFor(
    'the launched program',
    () => (existsSync(pidFile) ? processInfo(Number(readFileSync(pidFile, 'utf8'))) : null),
    10_000,
    10,
  );
  return { parent, child };
}

describe.runIf(process.platform === 'linux')('covey-launch', () => {
  it('becomes the program: same pid, same streams, same exit code, arguments untouched', async () => {
    const code = `
      let input = ''; process.stdin.on('data', (d) => input += d).on('end', () => {
        console.log(JSON.stringify({ pid: process.pid, parent: process.ppid, input, args: process.argv.slice(1) }));
        console.error('to stderr'); process.exitCode = 7;
      });`;
    const child = spawn(launcher(), ['--', node, '-e', code, '--', '--parent', 'a b', '', '"q"'], {
      stdio: 'pipe',
    });
    started.push(child);
    const output = { stdout: '', stderr: '' };
    child.stdout.on('data', (chunk: Buffer) => (output.stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()));
    child.stdin.end('from stdin');
    const exitCode = await new Promise((resolve) => child.on('close', resolve));
    expect(JSON.parse(output.stdout)).toEqual({
      pid: child.pid,
      parent: process.pid,
      input: 'from stdin',
      args: ['--parent', 'a b', '', '"q"'],
    });
    expect(output.stderr).toBe('to stderr\n');
    expect(exitCode).toBe(7);
  });

  it('gives the program a process group of its own, and the group ends as one', async () => {
    const { child } = await startFamily(
      `require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']); setInterval(() => {}, 1000)`,
    );
    expect(groupOf(child.pid)).toBe(child.pid);
    const grandchild = await waitFor('the grandchild', () => descendantsOf(child.pid)[0], 10_000);
    expect(groupOf(grandchild.pid)).toBe(child.pid);
    process.kill(-child.pid, 'SIGKILL');
    await waitFor('the group to end', () => !stillRuns(child) && !stillRuns(grandchild), deathMs, 5);
  });

  it.each([
    ['found at start', []],
    ['named', ['--parent', 'SELF', '--']],
  ])('ends the program within a second when its parent (%s) is killed', async (_, options) => {
    const { parent, child } = await startFamily('setInterval(() => {}, 1000)', options);
    expect(child.parentPid).toBe(parent.pid);
    parent.kill('SIGKILL');
    await waitFor('the program to end', () => !stillRuns(child), deathMs, 5);
  });

  it('ends a program that ignores every signal, and one that is stopped', async () => {
    const { parent, child } = await startFamily(
      `for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(s, () => {}); setInterval(() => {}, 1000)`,
    );
    process.kill(child.pid, 'SIGSTOP');
    await waitFor('the stop', () => processInfo(child.pid)?.state === 'T', 5_000, 5);
    parent.kill('SIGKILL');
    await waitFor('the program to end', () => !stillRuns(child), deathMs, 5);
  });

  it('never starts the program when the named parent has already gone, or is not the parent', () => {
    const mark = join(directory, 'ran');
    const dead = spawnSync(node, ['-e', '']).pid;
    for (const parent of [String(dead), String(process.ppid)]) {
      const result = launch(
        ...['--parent', parent, '--', node, '-e', `require('fs').writeFileSync('${mark}', '')`],
      );
      expect(result).toMatchObject({ code: 70, stdout: '' });
      expect(result.stderr).toContain('parent process has ended');
    }
    expect(existsSync(mark)).toBe(false);
  });

  it('starts nothing when the parent dies while it starts', async () => {
    // The parent ends at once; the launcher comes late, since a shell in between waits for that.
    const mark = join(directory, 'ran');
    const parentCode = `
      const wait = 'while kill -0 ' + process.pid + ' 2>/dev/null; do sleep 0.01; done; ';
      const start = 'exec ${launcher()} --parent ' + process.pid + ' -- touch ${mark}';
      require('child_process').spawn('sh', ['-c', wait + start], { stdio: 'ignore' })
        .on('spawn', () => process.kill(process.pid, 'SIGKILL'));`;
    for (let round = 0; round < 5; round += 1) {
      const parent = spawnSync(node, ['-e', parentCode], { timeout: 10_000 });
      expect(parent.signal).toBe('SIGKILL');
    }
    await waitFor(
      'the launchers to end',
      () => !listProcesses().some((process) => process.command.includes(mark)),
      10_000,
      20,
    );
    expect(existsSync(mark)).toBe(false);
  });

  it('says what is wrong: usage 64, not executable 126, not there 127', async () => {
    const text = join(directory, 'text');
    await writeFile(text, 'no program');
    await chmod(text, 0o644);
    expect(launch()).toMatchObject({ code: 64, stderr: expect.stringContaining('usage:') as string });
    expect(launch('--')).toMatchObject({ code: 64 });
    expect(launch('--unknown', node)).toMatchObject({ code: 64 });
    for (const pid of ['', '0', '1', '-5', '12x', '99999999999999']) {
      expect(launch('--parent', pid, '--', node)).toMatchObject({
        code: 64,
        stderr: expect.stringContaining('--parent') as string,
      });
    }
    expect(launch('--', text)).toMatchObject({
      code: 126,
      stderr: expect.stringContaining(text) as string,
    });
    expect(launch('--', join(directory, 'none'))).toMatchObject({
      code: 127,
      stderr: expect.stringContaining('none') as string,
    });
  });

  it('limits what the program may use, never beyond what it had', () => {
    const shown = launch(
      '--limit',
      'nofile=64',
      '--limit',
      'core=0',
      '/bin/sh',
      '-c',
      'ulimit -n; ulimit -Hc',
    );
    expect(shown).toMatchObject({ code: 0, stdout: '64\n0\n' });
    const twice = launch(
      ...['--limit', 'nofile=32', launcher(), '--limit', 'nofile=64', '/bin/sh', '-c', 'ulimit -n'],
    );
    expect(twice.stdout).toBe('32\n');
    for (const wrong of ['nofile', 'nofile=', 'nofile=-1', 'nofile=1x', 'stars=1']) {
      expect(launch('--limit', wrong, 'true').code, wrong).toBe(64);
    }
  });

  it('passes on the streams and the descriptor after them, and no other', () => {
    const script = `exec 3< / 4< / 200< /; exec ${launcher()} -- ls /proc/self/fd`;
    const shown = spawnSync('/bin/bash', ['-c', script], { encoding: 'utf8', timeout: 10_000 });
    // One is what lists them.
    expect(shown.stdout.trim().split('\n')).toEqual(['0', '1', '2', '3', '4']);
    expect(
      spawnSync('/bin/bash', ['-c', script.replace('ls /proc/self/fd', 'ls /proc/self/fd/4/etc')]).status,
    ).not.toBe(0);
  });

  it.runIf(keyNumber !== null)('leaves the keys of its session behind', () => {
    // keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0)
    const ask = `import ctypes; print(ctypes.CDLL(None).syscall(${keyNumber}, 0, -3, 0))`;
    const ours = spawnSync('python3', ['-c', ask], { encoding: 'utf8' }).stdout.trim();
    const theirs = launch('--', 'python3', '-c', ask).stdout.trim();
    // A container may forbid to ask, and then to take.
    if (ours === '-1') return;
    expect([ours, theirs]).toEqual([expect.stringMatching(/^\d+$/), expect.stringMatching(/^\d+$/)]);
    expect(theirs).not.toBe(ours);
  });

  it('does not run the program outside the control group that was asked for', () => {
    const refused = launch('--cgroup', join(directory, 'none'), '/bin/sh', '-c', 'echo ran');
    expect(refused).toMatchObject({ code: 71, stdout: '' });
    expect(refused.stderr).toContain('none/cgroup.procs');
  });
});
