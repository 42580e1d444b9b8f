import { spawn } from 'node:child_process';
import type { WriteStream } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { ErrorBody } from '#shared/errors.ts';
import { setProgramPriority } from '../priority.ts';
import { directorySize } from './directory-size.ts';
import type { LimitGroup } from './limits/limit-group.ts';
import type { OutputTail } from './output-tail.ts';
import { descendantsOf, trySignal } from './process-tree.ts';

export interface ProgramEnd {
  /** null: by a signal. */
  readonly code: number | null;
  /** Name of the signal that ended it, also where a sandbox told it as 128 + its number. */
  readonly signal: string | null;
  /** A limit that was passed, whatever came of the program then. */
  readonly exceeded: ErrorBody | null;
}

export interface ProgramOptions {
  readonly launcher: string;
  /** The program as it is started: the sandbox with its arguments, or the program itself. */
  readonly argv: readonly string[];
  readonly sandboxed: boolean;
  readonly environment: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  readonly stdin: AsyncIterable<Uint8Array> | null;
  /** Takes what it prints; null: it is kept in the tail like what it complains of. */
  readonly stdout: WriteStream | null;
  readonly tail: OutputTail;
  readonly group: LimitGroup;
  /** Together with `budget`, for all of a task. */
  readonly watched: readonly string[];
  readonly budget: OutputBudget;
  /** Aborted: it ends, politely first. */
  readonly signal: AbortSignal;
  readonly graceMs: () => number;
  readonly lowPriority: () => boolean;
}

/** What a task may still print and write. */
export interface OutputBudget {
  readonly limitBytes: number;
  printedBytes: number;
}

const stopLookMs = 100;
/** How long its output may still be read once it has ended. */
const drainMs = 500;
/** How long a killed program may take to disappear. */
const reapMs = 5_000;

/** Signals that a program does not end itself with, by number, as shells and sandboxes tell them (128 + number). */
const crashSignals: Readonly<Record<number, string>> = {
  4: 'SIGILL',
  5: 'SIGTRAP',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM',
  24: 'SIGXCPU',
  25: 'SIGXFSZ',
  31: 'SIGSYS',
};

/**
 * Runs one program to its end, and ends its whole tree: when it is told to (SIGTERM to all of it, then by force), when
 * it prints or writes more than it may, and when it has ended itself and left something behind.
 * Rejects when it cannot be started.
 */
export async function runProgram(options: ProgramOptions): Promise<ProgramEnd> {
  const { group, tail, budget, stdout } = options;
  const child = spawn(
    options.launcher,
    ['--parent', String(process.pid), ...group.launchOptions, '--', ...options.argv],
    {
      cwd: options.workingDirectory,
      env: { ...options.environment },
      stdio: [options.stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      windowsHide: true,
    },
  );
  let exceeded: ErrorBody | null = null;
  let exited = false;
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
    // Somebody who inherited its streams must not hide that it has gone.
    child.on('exit', (code, signal) => {
      exited = true;
      setTimeout(() => resolve({ code, signal }), drainMs);
    });
  });
  const started = new Promise<number>((resolve, reject) => {
    child.once('spawn', () => resolve(child.pid as number));
    child.once('error', reject);
  });

  const kill = (): void => {
    const pid = child.pid ?? null;
    group.kill(exited ? null : pid);
    if (pid !== null && process.platform !== 'win32') trySignal(-pid, 'SIGKILL');
    if (!exited) child.kill('SIGKILL');
  };
  const exceed = (error: ErrorBody): void => {
    if (exceeded) return;
    exceeded = error;
    kill();
  };
  const tooMuch = (): ErrorBody => ({
    code: 'task_output_too_large',
    message: `it printed and wrote more than ${inMiB(budget.limitBytes)}`,
  });
  const count = (chunk: Uint8Array): boolean => {
    budget.printedBytes += chunk.length;
    if (budget.printedBytes <= budget.limitBytes) return true;
    exceed(tooMuch());
    return false;
  };
  child.stderr?.on('data', (chunk: Uint8Array) => {
    if (count(chunk)) tail.push(chunk);
  });
  child.stdout?.on('data', (chunk: Uint8Array) => {
    if (!count(chunk)) return;
    if (!stdout) tail.push(chunk);
    else if (!stdout.write(chunk)) {
      child.stdout?.pause();
      stdout.once('drain', () => child.stdout?.resume());
    }
  });
  if (options.stdin && child.stdin) void feed(child.stdin, options.stdin, exceed);

  const stop = async (): Promise<void> => {
    const deadline = performance.now() + options.graceMs();
    const told = new Set<number>();
    // Again and again: what it starts meanwhile, or while its sandbox is still being made, is told too.
    while (!exited && child.pid !== undefined && performance.now() < deadline) {
      // The sandbox itself would take its program with it at once.
      const tree = descendantsOf(child.pid).map(({ pid }) => pid);
      for (const pid of options.sandboxed ? tree : [child.pid, ...tree]) {
        if (told.has(pid)) continue;
        told.add(pid);
        trySignal(pid, 'SIGTERM');
        trySignal(pid, 'SIGCONT');
      }
      await Promise.race([ended, delay(stopLookMs, undefined, { ref: false })]);
    }
    kill();
  };
  const onAbort = (): void => void stop();
  let looking = false;
  const look = async (pid: number): Promise<void> => {
    if (looking || exited) return;
    looking = true;
    try {
      const passed = group.look(pid);
      if (passed === 'memory') exceed(memoryError());
      if (passed === 'processes') {
        exceed({ code: 'task_failed', message: 'it started more processes than its limit allows' });
      }
      if (options.lowPriority()) for (const one of descendantsOf(pid)) setProgramPriority(one.pid, true);
      const written = await directorySize(options.watched);
      if (written + budget.printedBytes > budget.limitBytes) exceed(tooMuch());
    } finally {
      looking = false;
    }
  };
  let timer: NodeJS.Timeout | null = null;
  try {
    const pid = await started;
    // Where only our looks hold it, they must get the processor even from a thousand of it.
    if (group.watched) trySetPriority(pid, constants.priority.PRIORITY_LOW);
    if (options.signal.aborted) onAbort();
    else options.signal.addEventListener('abort', onAbort, { once: true });
    timer = setInterval(() => void look(pid), group.lookMs);
    const { code, signal } = await ended;
    kill();
    if (!exited) await Promise.race([ended, delay(reapMs, undefined, { ref: false })]);
    const written = await directorySize(options.watched);
    if (written + budget.printedBytes > budget.limitBytes) exceed(tooMuch());
    const told = options.sandboxed && code !== null && code > 128 ? crashSignals[code - 128] : undefined;
    const by = signal ?? told ?? null;
    if (by === 'SIGXFSZ') exceed(tooMuch());
    if (group.memoryExceeded() && code !== 0) exceed(memoryError());
    return { code: by === null ? code : null, signal: by, exceeded };
  } finally {
    if (timer) clearInterval(timer);
    options.signal.removeEventListener('abort', onAbort);
  }
}

/** A program may stop reading whenever it likes; what it has not read is no error. */
async function feed(
  stdin: NodeJS.WritableStream,
  source: AsyncIterable<Uint8Array>,
  fail: (error: ErrorBody) => void,
): Promise<void> {
  let open = true;
  const closed = new Promise<void>((resolve) => {
    const close = (): void => {
      open = false;
      resolve();
    };
    stdin.on('error', close);
    stdin.on('close', close);
  });
  try {
    for await (const chunk of source) {
      if (!open) return;
      if (stdin.write(chunk)) continue;
      await Promise.race([new Promise((resolve) => stdin.once('drain', resolve)), closed]);
    }
    stdin.end();
  } catch (error) {
    fail({ code: 'dataset_invalid', message: error instanceof Error ? error.message : String(error) });
  }
}

function memoryError(): ErrorBody {
  return { code: 'task_memory_exceeded', message: 'it needed more memory than its limit allows' };
}

function trySetPriority(pid: number, priority: number): void {
  try {
    setPriority(pid, priority);
  } catch {
    // It has ended.
  }
}

function inMiB(bytes: number): string {
  return `${Math.round((bytes / 1024 / 1024) * 10) / 10} MiB`;
}
