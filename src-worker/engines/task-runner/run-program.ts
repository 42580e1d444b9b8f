import { spawn } from 'node:child_process';
import type { WriteStream } from 'node:fs';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import { setProgramPriority } from '../priority.ts';
import { directorySize } from './directory-size.ts';
import type { LimitGroup } from './limits/limit-group.ts';
import type { OutputTail } from './output-tail.ts';
import { deletedBytes, killWith, treeOf, trySignal } from './process-tree.ts';
import { optionsFd } from './sandbox/bubblewrap.ts';

export interface ProgramEnd {
  /** null: by a signal. */
  readonly code: number | null;
  /** Name of the signal that ended it, also where a sandbox told it as 128 + its number. */
  readonly signal: string | null;
  /** A limit that was passed, whatever came of the program then. */
  readonly exceeded: ErrorBody | null;
}

/** A program as it is started: its sandbox, or itself. */
export interface ProgramStart {
  readonly argv: readonly string[];
  /** Of the launcher and what it becomes: in a sandbox nothing of the program's own, which may be hostile. */
  readonly environment: Readonly<Record<string, string>>;
  /** What the sandbox reads from `optionsFd`; null: there is none. */
  readonly options: string | null;
}

export interface ProgramOptions extends ProgramStart {
  readonly launcher: string;
  readonly sandboxed: boolean;
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
  /** Lay in the watched directories before it began. */
  readonly givenBytes: number;
}

const lookMs = 500;
const stopLookMs = 100;
/** How long its output may still be read once it has ended. */
const drainMs = 500;
const endRounds = 10;
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
      stdio: [
        options.stdin ? 'pipe' : 'ignore',
        'pipe',
        'pipe',
        ...(options.options === null ? [] : ['pipe' as const]),
      ],
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

  if (options.options !== null) {
    const sink = (child.stdio as (Writable | null)[] | undefined)?.[optionsFd];
    // There is none when nothing could be started; a sandbox that has ended before it read them tells why itself.
    sink?.on('error', () => undefined);
    sink?.end(options.options);
  }

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
  // A full disk: nothing would take the program's output any more, and it would wait for ever.
  const onUnwritable = (error: Error): void => {
    exceed({ code: 'task_lost', message: `its output could not be written: ${error.message}` });
    child.stdout?.resume();
  };
  if (stdout?.errored) onUnwritable(stdout.errored);
  stdout?.once('error', onUnwritable);
  if (options.stdin && child.stdin) void feed(child.stdin, options.stdin, exceed);

  const stop = async (): Promise<void> => {
    const deadline = performance.now() + options.graceMs();
    const told = new Set<number>();
    // Again and again: what it starts meanwhile, or while its sandbox is still being made, is told too.
    while (!exited && child.pid !== undefined && performance.now() < deadline) {
      for (const pid of addressees(child.pid, options.sandboxed)) {
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
  const bytesWritten = async (): Promise<number> =>
    (await directorySize(options.watched)) - budget.givenBytes + budget.printedBytes;
  let looking = false;
  let steppedBack = false;
  const look = async (pid: number): Promise<void> => {
    if (looking || exited) return;
    looking = true;
    try {
      const passed = group.look(pid);
      if (passed === 'memory') exceed(memoryError());
      if (passed === 'processes') {
        exceed({ code: 'task_failed', message: 'it started more processes than its limit allows' });
      }
      const low = options.lowPriority();
      const tree = treeOf(pid);
      if (low || steppedBack) for (const one of tree) setProgramPriority(one.pid, low);
      // Elsewhere the program itself is all that is known.
      if (tree.length === 0 && low !== steppedBack) setProgramPriority(pid, low);
      steppedBack = low;
      const written = await bytesWritten();
      const removed = deletedBytes(tree, options.workingDirectory);
      if (written + removed > budget.limitBytes) exceed(tooMuch());
    } finally {
      looking = false;
    }
  };
  let timer: NodeJS.Timeout | null = null;
  try {
    const pid = await started;
    if (options.signal.aborted) onAbort();
    else options.signal.addEventListener('abort', onAbort, { once: true });
    timer = setInterval(() => void look(pid), lookMs);
    const { code, signal } = await ended;
    kill();
    if (!exited) await Promise.race([ended, delay(reapMs, undefined, { ref: false })]);
    if (!options.sandboxed) await endWhatIsLeft(options.environment['COVEY_OUTPUT']);
    if ((await bytesWritten()) > budget.limitBytes) exceed(tooMuch());
    const told = options.sandboxed && code !== null && code > 128 ? crashSignals[code - 128] : undefined;
    const by = signal ?? told ?? null;
    if (by === 'SIGXFSZ') exceed(tooMuch());
    if (group.memoryExceeded() && code !== 0) exceed(memoryError());
    return { code: by === null ? code : null, signal: by, exceeded };
  } finally {
    if (timer) clearInterval(timer);
    options.signal.removeEventListener('abort', onAbort);
    stdout?.off('error', onUnwritable);
  }
}

/** Again, for what began while it was looked for. */
async function endWhatIsLeft(output: string | undefined): Promise<void> {
  for (let round = 0; output !== undefined && round < endRounds; round += 1) {
    if (killWith(`COVEY_OUTPUT=${output}`) === 0) return;
    await delay(stopLookMs);
  }
}

/** Who is told to end, politely: all of it, as far as it is known. */
function addressees(pid: number, sandboxed: boolean): number[] {
  // Windows has no polite way; elsewhere its group is what is known of it.
  if (process.platform !== 'linux') return [process.platform === 'win32' ? pid : -pid];
  const tree = treeOf(pid).map((one) => one.pid);
  // The sandbox itself would take its program with it at once.
  return sandboxed ? tree.filter((one) => one !== pid) : tree;
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
    // A disk that cannot be read says nothing of what is on it.
    const named = CoveyError.from(error);
    const wrong = named.code === 'dataset_invalid';
    fail({ code: wrong ? 'dataset_invalid' : 'task_lost', message: named.message });
  }
}

function memoryError(): ErrorBody {
  return { code: 'task_memory_exceeded', message: 'it needed more memory than its limit allows' };
}

function inMiB(bytes: number): string {
  return `${Math.round((bytes / 1024 / 1024) * 10) / 10} MiB`;
}
