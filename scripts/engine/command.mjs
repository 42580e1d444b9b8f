import { spawn } from 'node:child_process';
import os from 'node:os';

const keptLines = 60;
const graceMs = 5_000;
const endingSignals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);

/**
 * Runs a program to its end, line by line, in a process group of its own that is ended whole: at the deadline,
 * and when this process is told to end (which it then does, unless somebody else listens for that signal). It is
 * asked first: Ninja gives each compiler a group of its own and ends them when it is asked to end.
 * @param {string} file
 * @param {readonly string[]} args
 * @param {{ timeoutMs: number, cwd?: string, env?: NodeJS.ProcessEnv, onLine?: (line: string) => void }} options
 * @returns {Promise<{ code: number, stdout: string, tail: string, timedOut: boolean }>} `code` is 127 when it
 *   cannot be started; `tail` has the last lines of both streams
 */
export function runCommand(file, args, options) {
  const { timeoutMs, cwd, env = process.env, onLine = () => {} } = options;
  return new Promise((resolve) => {
    const ownGroup = process.platform !== 'win32';
    const child = spawn(file, [...args], {
      ...(cwd === undefined ? {} : { cwd }),
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: ownGroup,
      windowsHide: true,
    });
    /** @type {string[]} */
    const lines = [];
    let stdout = '';
    const take = (line) => {
      lines.push(line);
      if (lines.length > keptLines) lines.shift();
      onLine(line);
    };
    const flushers = [child.stdout, child.stderr].map((stream) => {
      let rest = '';
      stream.setEncoding('utf8');
      stream.on('data', (chunk) => {
        if (stream === child.stdout && stdout.length < 1_000_000) stdout += chunk;
        const parts = (rest + chunk).split(/\r?\n|\r/);
        rest = parts.pop() ?? '';
        for (const line of parts) take(line);
      });
      return () => {
        if (rest !== '') take(rest);
      };
    });

    const end = (signal) => {
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      try {
        if (ownGroup) process.kill(-child.pid, signal);
        else child.kill(signal);
      } catch {
        // It ended by itself in the meantime.
      }
    };
    const endOnExit = () => end('SIGTERM');
    let timedOut = false;
    /** @type {NodeJS.Timeout | undefined} */
    let insist;
    const timer = setTimeout(() => {
      timedOut = true;
      end('SIGTERM');
      insist = setTimeout(() => end('SIGKILL'), graceMs);
    }, timeoutMs);
    /** @param {NodeJS.Signals} signal */
    const interrupted = (signal) => {
      end('SIGTERM');
      finish(1);
      // Others may listen too and decide for themselves. Alone, we were in the way of the default, which would not
      // let anybody tidy up on exit.
      if (process.listenerCount(signal) === 0) process.exit(128 + os.constants.signals[signal]);
    };
    let finished = false;
    const finish = (code) => {
      if (finished) return;
      finished = true;
      clearTimeout(timer);
      clearTimeout(insist);
      process.off('exit', endOnExit);
      for (const signal of endingSignals) process.off(signal, interrupted);
      for (const flush of flushers) flush();
      resolve({ code, stdout, tail: lines.join('\n'), timedOut });
    };
    process.on('exit', endOnExit);
    for (const signal of endingSignals) process.on(signal, interrupted);
    child.on('error', (error) => {
      lines.push(error.message);
      finish(127);
    });
    child.on('close', (code) => finish(code ?? 1));
  });
}
