import { spawn } from 'node:child_process';
import { open, readdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { Reading } from '../decide.ts';
import { childEnvironment } from '../../../src-main/nodejs/process-host/child-process-host.ts';
import { runCommand, type RunCommand } from '../../../src-main/nodejs/run-command.ts';

/** What sensors may ask of the machine; given to them, so that tests can be any machine. */
export interface SensorSystem {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Epoch ms. */
  now(): number;
  /** The beginning of a file, 64 KiB at most; null when it cannot be read. */
  readText(path: string): Promise<string | null>;
  /** Names in a directory; none when it cannot be read. */
  list(path: string): Promise<readonly string[]>;
  readonly run: RunCommand;
  /** Starts a program that prints lines until it is ended. `onEnd` fires once, also when it could not start. */
  watch(
    file: string,
    args: readonly string[],
    on: { readonly line: (line: string) => void; readonly end: (reason: string) => void },
  ): { end(): void };
}

/** One thing that can be sensed; never rejects. */
export interface Sensor<T> {
  read(): Promise<Reading<T>>;
}

export const unknown = (reason: string): Reading<never> => ({ known: false, reason });
export const notHere = unknown('not available on this system');

const maxTextBytes = 64 * 1024;

export const realSystem: SensorSystem = {
  platform: process.platform,
  env: process.env,
  now: Date.now,
  async readText(path) {
    try {
      const file = await open(path, 'r');
      try {
        const { buffer, bytesRead } = await file.read(Buffer.alloc(maxTextBytes), 0, maxTextBytes, null);
        return buffer.toString('utf8', 0, bytesRead);
      } finally {
        await file.close();
      }
    } catch {
      return null;
    }
  },
  list: (path) => readdir(path).catch(() => []),
  run: runCommand,
  watch(file, args, on) {
    let over = false;
    const end = (reason: string): void => {
      if (over) return;
      over = true;
      on.end(reason);
    };
    // Both pipes break with this process: a program that reads or writes learns that nobody is left.
    const child = spawn(file, [...args], {
      env: childEnvironment(),
      stdio: ['pipe', 'pipe', 'ignore'],
      windowsHide: true,
    });
    child.stdin.on('error', () => undefined);
    child.on('error', (error) => end(error.message));
    child.on('exit', () => end(`"${file}" ended`));
    createInterface({ input: child.stdout }).on('line', on.line);
    return { end: () => void child.kill('SIGKILL') };
  },
};
