import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ScriptError } from './console.mjs';
import { ensurePackages, pinnedNode, pinnedVersion } from './packages.mjs';
import { inRoot, root } from './paths.mjs';
import { forwardSignals } from './run.mjs';

const supervised = 'COVEY_SUPERVISED';

/**
 * Makes the rest of a script run with this checkout's packages and on its pinned Node.js. May be the very
 * first command after `git clone`, on any Node.js from 18 with npm.
 *
 * 1. Install what package-lock.json names, unless it is there.
 * 2. Put the checkout's programs first in PATH.
 * 3. On another Node.js: run the same command line on the pinned one and exit with its code.
 */
export async function bootstrap() {
  if (Number(process.versions.node.split('.')[0]) < 18) {
    throw new ScriptError(`Node.js ${process.versions.node} is too old.`, 'Install Node.js 18 or newer.');
  }
  await ensurePackages();
  const bin = inRoot('node_modules', '.bin');
  if (!(process.env['PATH'] ?? '').startsWith(bin)) {
    process.env['PATH'] = `${bin}${path.delimiter}${process.env['PATH'] ?? ''}`;
  }
  endWithStarter();
  if (process.versions.node === pinnedVersion()) return;
  process.exit(await runOnPinnedNode());
}

/** Resolves to the exit code of this command line on the pinned Node.js. */
function runOnPinnedNode() {
  return new Promise((resolve) => {
    const child = spawn(pinnedNode(), process.argv.slice(1), {
      cwd: process.cwd(),
      env: { ...process.env, [supervised]: '1' },
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    });
    forwardSignals(child);
    child.on('error', (error) => {
      process.stderr.write(`cannot run ${path.relative(root, pinnedNode())}: ${error.message}\n`);
      resolve(1);
    });
    child.on('exit', (code, signal) => resolve(code ?? (signal === 'SIGINT' ? 130 : 1)));
  });
}

/**
 * Ends this process, as if told to, when what started it has ended: the same script on another Node.js (which
 * holds a channel to us), or npm, which passes on a Ctrl-C of the terminal but not the end of itself.
 */
function endWithStarter() {
  const end = () => process.kill(process.pid, 'SIGTERM');
  if (process.env[supervised] === '1') {
    delete process.env[supervised];
    process.on('disconnect', end);
    process.channel?.unref(); // A listener for 'disconnect' would keep this process alive.
  } else if (process.env['npm_lifecycle_event'] !== undefined) {
    const starter = process.ppid;
    const npm = parentOfShell(starter);
    const timer = setInterval(() => {
      if (process.ppid === starter && (npm === null || isRunning(npm))) return;
      clearInterval(timer);
      end();
    }, 1_000);
    timer.unref();
  }
}

/** npm starts scripts through a shell, which outlives it: the pid of the shell's parent, null for another program. */
function parentOfShell(pid) {
  if (process.platform === 'win32') return null;
  const { status, stdout } = spawnSync('ps', ['-o', 'ppid=,comm=', '-p', String(pid)], { encoding: 'utf8' });
  const fields = /^\s*(\d+)\s+(?:\S*\/)?-?(\w+)\s*$/.exec(status === 0 ? stdout : procStat(pid));
  return fields && ['sh', 'dash', 'bash', 'ash', 'zsh'].includes(fields[2] ?? '') ? Number(fields[1]) : null;
}

/** What ps would print, where there is no ps. */
function procStat(pid) {
  try {
    const [, name, parent] = /^\d+ \((.*)\) \S (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
    return `${parent} ${name}`;
  } catch {
    return '';
  }
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
