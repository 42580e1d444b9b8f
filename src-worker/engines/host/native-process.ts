import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { CoveyError } from '#shared/errors.ts';
import { createLineSplitter } from './line-splitter.ts';

export interface NativeExit {
  readonly code: number | null;
  readonly signal: string | null;
}

/** One native program with its process group, started through the launcher. */
export interface NativeProcess {
  readonly pid: number;
  /** Set once it has ended. */
  readonly exit: NativeExit | null;
  /** Resolves when the program has ended and all its output was read. */
  readonly exited: Promise<NativeExit>;
  /** Lines of both of its streams, in the order in which each stream has them. */
  onLine(listener: (line: string) => void): void;
  /** Writes a line to its standard input; ignored when it does not read. */
  write(line: string): void;
  /** Asks it to end, and ends its group by force after `graceMs` (0: at once). Resolves when it is gone. */
  end(graceMs: number): Promise<void>;
  /** Forced end of the whole group, now; for when there is no time to wait. */
  kill(): void;
}

/** How long a killed program may still take to disappear before we stop waiting for it. */
const reapMs = 5_000;
/** How long after a program's end its output may still be read. */
const outputMs = 500;

/**
 * Starts a program. Rejects with `engine_start_failed` when the system cannot run it.
 *
 * Its standard input stays open as long as this process lives: llama-server ends when it closes, which on every
 * system is a second line of defence behind the launcher.
 */
export async function startNative(options: {
  readonly launcher: string;
  readonly executable: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
}): Promise<NativeProcess> {
  const child = spawn(
    options.launcher,
    ['--parent', String(process.pid), '--', options.executable, ...options.args],
    {
      cwd: options.workingDirectory,
      env: { ...options.environment },
      stdio: ['pipe', 'pipe', 'pipe'],
      windowsHide: true,
    },
  );
  const listeners: ((line: string) => void)[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    const splitter = createLineSplitter((line) => listeners.forEach((listener) => listener(line)));
    stream.on('data', (chunk: Uint8Array) => splitter.push(chunk));
    stream.on('end', () => splitter.end());
  }
  child.stdin.on('error', () => undefined);

  let exit: NativeExit | null = null;
  const exited = new Promise<NativeExit>((resolve) => {
    const finish = (code: number | null, signal: NodeJS.Signals | null): void => {
      exit ??= { code, signal };
      resolve(exit);
    };
    child.on('close', finish);
    // Its output normally ends with it; somebody who inherited the streams must not hide that it has gone.
    child.on('exit', (code, signal) => setTimeout(() => finish(code, signal), outputMs).unref());
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error) =>
      reject(
        new CoveyError('engine_start_failed', `${options.executable} could not be started: ${error.message}`),
      ),
    );
  });
  const pid = child.pid as number;

  const kill = (): void => {
    if (exit) return;
    signalGroup(pid, 'SIGKILL');
    child.kill('SIGKILL');
  };
  return {
    pid,
    get exit() {
      return exit;
    },
    exited,
    onLine: (listener) => listeners.push(listener),
    write: (line) => child.stdin.write(`${line}\n`),
    async end(graceMs) {
      if (!exit && graceMs > 0) {
        child.kill('SIGTERM');
        // A stopped process takes no other signal until it goes on.
        signalGroup(pid, 'SIGCONT');
        await Promise.race([exited, delay(graceMs, undefined, { ref: false })]);
      }
      kill();
      await Promise.race([exited, delay(reapMs, undefined, { ref: false })]);
    },
    kill,
  };
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  if (process.platform === 'win32') return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has gone, or the launcher could not make one.
  }
}
