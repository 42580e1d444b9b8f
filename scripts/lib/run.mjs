import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { root } from './paths.mjs';

/**
 * Runs a program to its end and gathers what it prints.
 * @param {string} file
 * @param {readonly string[]} args
 * @param {{ env?: NodeJS.ProcessEnv, stdio?: 'capture' | 'inherit', timeoutMs?: number, shell?: boolean, cwd?: string }} [options]
 * @returns {Promise<{ code: number, output: string, timedOut: boolean }>} code 127 when it cannot be started;
 *   `output` is stdout and stderr in the order they came, empty with stdio `inherit`
 */
export function run(file, args, options = {}) {
  const { env = process.env, stdio = 'capture', timeoutMs, shell = false, cwd = root } = options;
  return new Promise((resolve) => {
    // A group of its own, so that a time-out ends the whole tree; with a terminal it stays in the
    // foreground group and gets Ctrl-C itself.
    const detached = timeoutMs !== undefined && process.platform !== 'win32' && process.stdin.isTTY !== true;
    const child = spawn(file, args, {
      cwd,
      env,
      shell,
      detached,
      stdio: stdio === 'inherit' ? ['ignore', 'inherit', 'inherit'] : ['ignore', 'pipe', 'pipe'],
    });
    /** @type {Buffer[]} */
    const chunks = [];
    let timedOut = false;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            timedOut = true;
            endTree(child, detached);
          }, timeoutMs);
    const stopForwarding = detached ? forwardSignals(child) : () => {};
    const finish = (code) => {
      clearTimeout(timer);
      stopForwarding();
      resolve({ code, output: Buffer.concat(chunks).toString('utf8'), timedOut });
    };
    child.stdout?.on('data', (chunk) => chunks.push(chunk));
    child.stderr?.on('data', (chunk) => chunks.push(chunk));
    child.on('error', (error) => {
      chunks.push(Buffer.from(`${error.message}\n`));
      finish(127);
    });
    child.on('close', (code) => finish(code ?? 1));
  });
}

/**
 * Passes the signals that ask this process to end on to a child, whose own end then decides.
 * @param {import('node:child_process').ChildProcess} child
 * @returns {() => void} stops that
 */
export function forwardSignals(child) {
  const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
  const forward = (signal) => child.kill(signal);
  for (const signal of signals) process.on(signal, forward);
  return () => {
    for (const signal of signals) process.off(signal, forward);
  };
}

function endTree(child, detached) {
  if (child.pid === undefined) return;
  try {
    if (detached) process.kill(-child.pid, 'SIGKILL');
    else child.kill('SIGKILL');
  } catch {
    // It ended by itself in the meantime.
  }
}

/** Absolute path of a program on PATH, or null. */
export function findProgram(name) {
  const extensions = process.platform === 'win32' ? ['.exe', '.cmd', '.bat'] : [''];
  for (const directory of (process.env['PATH'] ?? '').split(path.delimiter)) {
    if (directory === '') continue;
    for (const extension of extensions) {
      const candidate = path.join(directory, name + extension);
      if (existsSync(candidate)) return candidate;
    }
  }
  return null;
}
