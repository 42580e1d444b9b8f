import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { pinnedNode } from './packages.mjs';
import { ScriptError } from './console.mjs';
import { inRoot } from './paths.mjs';

const readyMs = 60_000;
const stopMs = 20_000;

/**
 * @typedef {object} NodeProcess
 * @property {string} name
 * @property {{ apiAddress: string | null, clusterAddress: string | null, nodeId: string }} report
 * @property {Promise<number | null>} exited its exit code
 * @property {() => string} lastWords the end of its log, for messages
 * @property {() => Promise<void>} stop asks, and insists after a while; the whole tree ends
 */

/**
 * Starts `covey controller` or `covey worker` as a process of its own and waits until it is ready. It is in a
 * session of its own, so that Ctrl-C reaches it only through us, and it holds the other end of a pipe of ours,
 * so that it ends when we are gone, however that came.
 * @param {{ name: string, args: string[], directory: string, input?: string, onStarted: (stop: () => Promise<void>) => void }} options
 *   `onStarted` is called before it is ready, so that it can be stopped then too
 * @returns {Promise<NodeProcess>}
 */
export async function startNode({ name, args, directory, input, onStarted }) {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const readyFile = path.join(directory, `${name}.ready.json`);
  const logFile = path.join(directory, `${name}.log`);
  rmSync(readyFile, { force: true });
  const log = openSync(logFile, 'w', 0o600);
  const child = spawn(
    pinnedNode(),
    [
      inRoot('bin', 'covey.mjs'),
      ...args,
      ...['--name', name],
      ...['--data', path.join(directory, name)],
      ...['--ready-file', readyFile],
      '--json',
      '--exit-with-parent',
    ],
    { stdio: ['pipe', log, log], detached: process.platform !== 'win32' },
  );
  closeSync(log);
  child.stdin?.on('error', () => {}); // It may have ended already; that is seen below.
  if (input !== undefined) child.stdin?.write(`${input}\n`);

  /** @type {Promise<number | null>} */
  const exited = new Promise((resolve) => {
    child.on('error', () => resolve(127));
    child.on('exit', (code) => resolve(code));
  });
  let running = true;
  void exited.then(() => (running = false));
  const stop = async () => {
    if (!running) return;
    child.kill('SIGTERM');
    const timer = setTimeout(() => killGroup(child), stopMs);
    await exited;
    clearTimeout(timer);
  };
  onStarted(stop);
  const lastWords = () => lastLines(logFile, 5);

  const deadline = Date.now() + readyMs;
  for (;;) {
    const report = readJson(readyFile);
    if (report !== null) return { name, report, exited, lastWords, stop };
    if (!running) throw new ScriptError(`The ${name} process ended before it was ready.`, lastWords());
    if (Date.now() > deadline) {
      throw new ScriptError(`The ${name} process was not ready after ${readyMs / 1000} s.`, lastWords());
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function killGroup(child) {
  try {
    if (process.platform === 'win32') child.kill('SIGKILL');
    else process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended by itself in the meantime.
  }
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return null;
  }
}

function lastLines(file, count) {
  try {
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n').slice(-count);
    return `Its last lines (all of them are in ${path.relative(process.cwd(), file)}):\n  ${lines.join('\n  ')}`;
  } catch {
    return '';
  }
}
