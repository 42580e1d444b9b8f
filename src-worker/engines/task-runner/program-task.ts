import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { expandTemplate } from '#shared/domain/template.ts';
import type { MadeOutput, ProgramTask, RunnerInit } from '#shared/host/task-runner.ts';
import { CoveyError } from '#shared/errors.ts';
import { begunHere, begunInSandbox, mayNotHaveBegun, type Begun } from './begun.ts';
import { collectOutputs } from './collect-outputs.ts';
import type { LimitGroup } from './limits/limit-group.ts';
import { createLimitGroup } from './limits/limit-group.ts';
import type { OutputTail } from './output-tail.ts';
import { bytesOf, locate, openDataset, recordsOf, type Extent } from './records/scan.ts';
import { removeDirectory } from './remove-directory.ts';
import { runProgram, type OutputBudget, type ProgramEnd, type ProgramStart } from './run-program.ts';
import { directorySize } from './directory-size.ts';
import {
  insideLauncher,
  insideOutput,
  insideScript,
  insideSecrets,
  insideWork,
  sandboxedStart,
} from './sandbox/bubblewrap.ts';

/** `refused`: not on this machine. */
type Failing = 'failed' | 'crashed' | 'lost' | 'refused';

/** Why a task has no result; `exitCode` when its program said no. */
export class ProgramFailure extends CoveyError {
  readonly outcome: Failing;
  readonly exitCode: number | null;
  constructor(outcome: Failing, error: CoveyError, exitCode: number | null = null) {
    super(error.code, error.message, error.details);
    this.outcome = outcome;
    this.exitCode = exitCode;
  }
}

export interface TaskContext {
  readonly init: RunnerInit;
  readonly tail: OutputTail;
  readonly signal: AbortSignal;
  readonly graceMs: () => number;
  readonly lowPriority: () => boolean;
  readonly onStarted: () => void;
  readonly onProgress: (fraction: number) => void;
  /** Tells what the task used, once it is known. */
  readonly onUsage: (group: LimitGroup) => void;
}

const maxTemporaryBytes = 1024 * 1024 * 1024;

/** Where a program finds its things, as it sees them. */
interface Places {
  readonly work: string;
  readonly output: string;
  readonly secrets: string;
  readonly script: string;
}

/**
 * Runs the program of one task, or for `map` per record one program after the other, and gives what it made.
 * @throws ProgramFailure
 */
export async function runProgramTask(task: ProgramTask, context: TaskContext): Promise<MadeOutput[]> {
  const { init } = context;
  const { program, directory } = task;
  if (init.launcher === null) throw lost('there is no launcher to start programs with');
  const sandboxed = init.sandbox.kind === 'bubblewrap';
  const real: Places = {
    work: join(directory, 'work'),
    output: join(directory, 'output'),
    secrets: join(directory, 'secrets'),
    script: join(directory, 'script'),
  };
  const seen: Places = sandboxed
    ? { work: insideWork, output: insideOutput, secrets: insideSecrets, script: insideScript }
    : real;
  await layOut(task, real);
  const { command, environment } = commandOf(task, seen, sandboxed ? '/tmp' : real.work);
  const start = startOf(task, init, real, command, environment);

  let group: LimitGroup;
  try {
    group = createLimitGroup(init.limits, {
      memoryBytes: program.limits.memoryBytes,
      // The launcher, the sandbox and its first process are not the program's own.
      processes: program.limits.processes + (sandboxed ? 2 : 0),
      fileBytes: program.limits.outputBytes,
      cpus: program.cpus,
    });
  } catch (error) {
    throw lost(`its limits could not be set: ${String(error)}`);
  }
  const watched = [real.work, real.output];
  const stdoutPath = join(directory, 'stdout');
  let stdout: WriteStream | null = null;
  let dataset: FileHandle | null = null;
  try {
    if (task.feed) {
      dataset = await openDataset(task.feed.path).catch(failedAs('failed'));
      stdout = createWriteStream(stdoutPath, { mode: 0o600 });
      // What is wrong with it shows in the program's end, or when it is finished.
      stdout.on('error', () => undefined);
    }
    const budget: OutputBudget = {
      limitBytes: program.limits.outputBytes,
      printedBytes: 0,
      // Where inputs are copied to the working directory they are no output.
      givenBytes: await directorySize(watched),
    };
    // Inputs are mounted there: a link that was left in their way would lead bubblewrap out of what it makes.
    const again = async (): Promise<void> => {
      if (!sandboxed) return;
      await removeDirectory(real.work).catch(failedAs('lost'));
      await mkdir(real.work, { mode: 0o700 });
    };
    const common = {
      launcher: init.launcher,
      sandboxed,
      workingDirectory: real.work,
      group,
      watched,
      signal: context.signal,
      graceMs: context.graceMs,
      lowPriority: context.lowPriority,
    };
    const begun = async (): Promise<Begun> => {
      const [name = ''] = command;
      if (!sandboxed) return begunHere(name, environment['PATH'] ?? '', real.work);
      await again();
      return begunInSandbox(name, (lookUp, tail) =>
        runProgram({
          ...common,
          ...startOf(task, init, real, lookUp, environment),
          ...{ stdin: null, stdout: null, tail },
          budget: { limitBytes: Infinity, printedBytes: 0, givenBytes: 0 },
        }),
      ).catch(failedAs('lost'));
    };
    const run = async (stdin: AsyncIterable<Uint8Array> | null, what: string): Promise<void> => {
      const given = { stdin, stdout, tail: context.tail, budget };
      const end = await runProgram({ ...common, ...start, ...given }).catch(failedAs('failed'));
      if (!end.exceeded && !context.signal.aborted && mayNotHaveBegun(end.code, sandboxed)) {
        checkBegun(await begun(), command[0] ?? '');
      }
      check(end, what, context.signal);
    };
    context.onStarted();
    if (task.feed && dataset) await feedPrograms(task, dataset, run, again, context);
    else await run(null, '');
    if (!stdout) return await collectOutputs(real.output, task.outputs).catch(failedAs('failed'));
    stdout.end();
    await finished(stdout).catch(failedAs('lost'));
    return [{ name: 'output', path: stdoutPath, kind: 'file' }];
  } finally {
    context.onUsage(group);
    stdout?.destroy();
    await dataset?.close();
    await group.remove();
  }
}

async function feedPrograms(
  task: ProgramTask,
  file: FileHandle,
  run: (stdin: AsyncIterable<Uint8Array>, what: string) => Promise<void>,
  /** Makes ready for another program. */
  again: () => Promise<void>,
  { signal, onProgress }: TaskContext,
): Promise<void> {
  const { feed, range } = task;
  if (!feed || !range) throw lost('it came without a range of records');
  const { header, records } = await locate(file, feed.dataset, range, feed.seek, signal).catch(
    failedAs('failed'),
  );
  const total = Math.max(1, records.to - records.from);
  if (feed.per === 'chunk') {
    await run(
      chunk(file, header, records, signal, (bytes) => onProgress(bytes / total)),
      '',
    );
    return;
  }
  let number = range.from;
  for await (const record of recordsOf(file, feed.dataset, range, feed.seek, signal)) {
    if (number > range.from) await again();
    await run(once(header ? [await whole(file, header, signal), record] : [record]), `record ${number}: `);
    number += 1;
    onProgress((number - range.from) / Math.max(1, range.to - range.from));
  }
}

async function* chunk(
  file: FileHandle,
  header: Extent | null,
  records: Extent,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  if (header) yield* bytesOf(file, header, signal);
  let bytes = 0;
  for await (const piece of bytesOf(file, records, signal)) {
    yield piece;
    bytes += piece.length;
    onBytes(bytes);
  }
}

async function whole(file: FileHandle, extent: Extent, signal: AbortSignal): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of bytesOf(file, extent, signal)) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function* once(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

async function layOut(task: ProgramTask, { work, output, secrets, script }: Places): Promise<void> {
  const { program, directory } = task;
  try {
    for (const path of [directory, work, output, secrets])
      await mkdir(path, { recursive: true, mode: 0o700 });
    for (const [name, value] of Object.entries(program.secrets)) {
      await writeFile(join(secrets, name), value, { mode: 0o600 });
    }
    if (program.script !== null) await writeFile(script, program.script, { mode: 0o500 });
    await writeFile(join(directory, 'passwd'), `covey:x:1000:1000:covey:${insideWork}:/bin/sh\n`);
    await writeFile(join(directory, 'group'), 'covey:x:1000:\n');
  } catch (error) {
    throw failure('lost', CoveyError.from(error));
  }
}

/** The command with its variables filled in, and an environment that has nothing of this machine's. */
function commandOf(
  task: ProgramTask,
  places: Places,
  temporary: string,
): { readonly command: string[]; readonly environment: Record<string, string> } {
  const { program, index, count, attempt, range } = task;
  const inputs = program.inputs.map(({ path }) => [path, join(places.work, path)] as const);
  const values: Record<string, string | undefined> = {
    index: String(index),
    count: count === null ? undefined : String(count),
    attempt: String(attempt),
    cpus: String(program.cpus),
    from: range ? String(range.from) : undefined,
    to: range ? String(range.to) : undefined,
    output: places.output,
    input: inputs[0]?.[1],
    ...Object.fromEntries(inputs.map(([path, place]) => [`input.${path}`, place])),
  };
  const expand = (text: string): string => {
    try {
      return expandTemplate(text, (name) => (Object.hasOwn(values, name) ? values[name] : undefined));
    } catch (error) {
      throw failure('failed', new CoveyError('job_invalid', error instanceof Error ? error.message : ''));
    }
  };
  const command =
    program.script === null ? (program.command ?? []).map(expand) : [...program.interpreter, places.script];
  if (command.length === 0) {
    throw failure('failed', new CoveyError('job_invalid', 'there is neither a command nor a script'));
  }
  const threads = String(Math.max(1, Math.floor(program.cpus)));
  const environment: Record<string, string> = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ...systemVariables(),
    HOME: places.work,
    USER: 'covey',
    LOGNAME: 'covey',
    LANG: 'C.UTF-8',
    TMPDIR: temporary,
    OMP_NUM_THREADS: threads,
    ...Object.fromEntries(Object.entries(program.env).map(([name, value]) => [name, expand(value)])),
    ...task.variables,
    COVEY_OUTPUT: places.output,
    COVEY_CPUS: String(program.cpus),
  };
  for (const name of ['index', 'count', 'attempt', 'from', 'to', 'input']) {
    const value = values[name];
    if (value !== undefined) environment[`COVEY_${name.toUpperCase()}`] = value;
  }
  for (const name of Object.keys(program.secrets)) environment[`${name}_FILE`] = join(places.secrets, name);
  return { command, environment };
}

/** Windows starts no program without these. */
function systemVariables(): Record<string, string> {
  if (process.platform !== 'win32') return {};
  const names = ['SystemRoot', 'PATH', 'PATHEXT', 'TEMP', 'TMP'];
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}

/** The command as the launcher gets it. */
function startOf(
  task: ProgramTask,
  init: RunnerInit,
  real: Places,
  command: readonly string[],
  environment: Readonly<Record<string, string>>,
): ProgramStart {
  if (init.sandbox.kind === 'none') return { argv: command, environment, options: null };
  const { program, mounts, directory } = task;
  // Inside, the user's processes are counted anew: there the number can be limited without control groups.
  const counted = init.limits.kind === 'rlimits' && init.launcher !== null;
  const view = {
    workDirectory: real.work,
    outputDirectory: real.output,
    readOnly: [
      { source: join(directory, 'passwd'), inside: '/etc/passwd' },
      { source: join(directory, 'group'), inside: '/etc/group' },
      { source: real.secrets, inside: insideSecrets },
      ...(program.script === null ? [] : [{ source: real.script, inside: insideScript }]),
      ...(counted ? [{ source: init.launcher, inside: insideLauncher }] : []),
      ...mounts.map(({ source, path }) => ({ source, inside: join(insideWork, path) })),
    ],
    hidden: init.hidden,
    network: program.network === 'lan',
    temporaryBytes: Math.min(program.limits.memoryBytes, maxTemporaryBytes),
    environment,
  };
  const limited = counted
    ? [insideLauncher, '--limit', `nproc=${program.limits.processes}`, '--', ...command]
    : command;
  try {
    return { ...sandboxedStart(init.sandbox.path, view, limited), environment: {} };
  } catch (error) {
    throw failure('failed', CoveyError.from(error));
  }
}

/** Of what ended a program, where it is not its own fault. */
const outcomes: Readonly<Record<string, 'crashed' | 'lost'>> = {
  task_memory_exceeded: 'crashed',
  task_lost: 'lost',
};

/** @throws ProgramFailure when it never began: that is this machine's, not the program's own doing */
function checkBegun(begun: Begun, name: string): void {
  if (begun.type === 'no-program') {
    const message = `there is no program ${JSON.stringify(name)} here (is it one of the inputs?)`;
    throw failure('refused', new CoveyError('program_not_found', message));
  }
  if (begun.type === 'no-interpreter') {
    const { interpreter } = begun;
    const why = interpreter.endsWith('\r') ? ' (its first line ends as on Windows)' : '';
    const message = `the program ${JSON.stringify(name)} cannot start: its interpreter ${JSON.stringify(interpreter)} is not here${why}`;
    throw failure('refused', new CoveyError('program_not_found', message));
  }
  if (begun.type === 'no-sandbox') throw lost(`its sandbox could not be made: ${begun.detail}`);
}

function check({ code, signal, exceeded }: ProgramEnd, what: string, stopping: AbortSignal): void {
  if (stopping.aborted) {
    throw failure('lost', new CoveyError('cancelled', `${what}it was told to end`), code);
  }
  if (exceeded) {
    const outcome = outcomes[exceeded.code] ?? 'failed';
    throw failure(outcome, new CoveyError(exceeded.code, what + exceeded.message), code);
  }
  if (signal !== null) {
    throw failure('crashed', new CoveyError('task_crashed', `${what}the program was ended by ${signal}`));
  }
  if (code !== 0) {
    throw failure(
      'failed',
      new CoveyError('task_failed', `${what}the program ended with exit code ${code}`),
      code,
    );
  }
}

function failure(outcome: Failing, error: CoveyError, exitCode: number | null = null): ProgramFailure {
  return new ProgramFailure(outcome, error, exitCode);
}

function lost(message: string): ProgramFailure {
  return failure('lost', new CoveyError('task_lost', message));
}

function failedAs(outcome: 'failed' | 'lost'): (error: unknown) => never {
  return (error) => {
    if (error instanceof ProgramFailure) throw error;
    const named = error instanceof CoveyError ? error : new CoveyError('task_failed', String(error));
    throw failure(outcome, named);
  };
}
