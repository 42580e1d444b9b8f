import { existsSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname, extname, resolve } from 'node:path';
import { InvalidArgumentError, Option, type Argument, type Command } from 'commander';
import { elementTypeSchema, kernelNameSchema } from '#shared/domain/kernel-call.ts';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { JobSpec } from '#shared/domain/job-spec.ts';
import type { JobView } from '#shared/domain/job.ts';
import { parseList, parseNumber, parseSeconds, parseSize, parseSplit, parseWhole } from '../arguments.ts';
import { tell, type CommandContext } from '../context.ts';
import { UsageError } from '../failure.ts';
import { kernelHelp, programHelp } from '../help-text.ts';
import { checkedSpec, readJobDocument } from '../job-document.ts';
import { isPath, putFilesOf } from '../job-files.ts';
import { letGo, namingFile, precheck } from '../job-precheck.ts';
import { submitOnce, wasRefused } from '../job-submit.ts';
import { finishJob, jobName } from '../job-wait.ts';
import type { AddCommands } from '../registry.ts';
import { suggest } from '../suggest.ts';
import { printable } from '../text.ts';
import { putPath } from './artifacts.ts';

/** Options of every short form; `--detach` is the word's own, for specifications too. */
interface CommonFlags {
  readonly name?: string;
  readonly nodes?: string[];
  readonly shares?: Record<string, number>;
  readonly cpus?: number;
  readonly memory?: number;
  readonly timeout?: number;
  readonly attempts?: number;
  readonly priority?: number;
  readonly exclusive: boolean;
}
interface ProgramFlags extends CommonFlags {
  readonly partitions?: number | 'auto';
  readonly script?: string;
  readonly interpreter?: string;
  readonly input: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly secret: Readonly<Record<string, string>>;
  readonly output: readonly string[];
  readonly network: 'none' | 'lan';
}
interface DatasetFlags {
  readonly dataset: string;
  readonly format?: string;
  readonly recordBytes?: number;
  readonly header?: boolean;
}

const specLimitBytes = 1024 * 1024;
export const addRunCommand: AddCommands = ({ add, act }) => {
  const run = add('run [spec]', 'compute something: a job from a file, or a short form')
    .option('--detach', 'do not wait for the result', false)
    .addHelpText(
      'after',
      '\nSPEC is a YAML or JSON file; files and folders that it names by "./" are taken\n' +
        'along. "covey jobs schema" prints what it may hold.',
    )
    // More words are no specification: a kind of work was meant.
    .allowExcessArguments(true)
    .action((spec: string | undefined, _flags, command: Command) => {
      if (spec === undefined)
        throw new UsageError('Say what to run: a specification, or a kind of work.', hint);
      if (command.args.length > 1) {
        throw new UsageError(`"${spec}" is no kind of work.`, meantKind(spec, command));
      }
      return act(command, (context) => runDocument(context, spec, command));
    });

  common(add('kernel <kernel> <input> [second]', 'a built-in kernel over a file of numbers', run), ['cpus'])
    .addHelpText('after', kernelHelp())
    .addOption(
      new Option('--type <type>', "of the elements (default: the file's extension)").choices(
        elementTypeSchema.options,
      ),
    )
    .option('--partitions <n>', 'exactly so many (default: by speed)', parsePartitions)
    .option('--bins <n>', 'histogram: how many', parseWhole(1, 4_096))
    .option('--low <number>', 'histogram: where they begin', parseNumber)
    .option('--high <number>', 'histogram: where they end', parseNumber)
    .action(
      (kernel: string, input: string, second: string | undefined, flags: KernelFlags, command: Command) =>
        act(command, (context) =>
          start(context, command, flags, {
            kind: 'kernel',
            name: jobNameOf(`${kernel} ${basename(input)}`),
            kernel,
            type: flags.type ?? typeOf(input),
            input: reference(context, input),
            ...given({
              second: second === undefined ? undefined : reference(context, second),
              partitions: flags.partitions,
              bins: flags.bins,
              low: flags.low,
              high: flags.high,
            }),
          }),
        ),
    )
    .registeredArguments.forEach((argument: Argument, index) => {
      if (index === 0) argument.choices(kernelNameSchema.options);
    });

  program(common(add('command [command...]', 'a program, once or several times', run)))
    .option('--partitions <n>', 'how many times, each with its {index}', parseWhole(1, 100_000))
    .option('--output <path>', 'a file or folder in {output} to keep; again for more', gather, [])
    .addHelpText('after', programHelp(['count']))
    .action((words: string[], flags: ProgramFlags, command: Command) =>
      act(command, async (context) =>
        start(context, command, flags, {
          kind: 'command',
          ...(await programOf(context, words, flags)),
          ...given({ partitions: flags.partitions }),
          outputs: flags.output.map((path) => ({ path })),
        }),
      ),
    );

  fixedDataset(
    dataset(
      program(common(add('map [command...]', 'a program over the records of a file', run))),
      'csv',
      'binary',
    ),
  )
    .option('--partitions <n>', 'exactly so many (default: by speed)', parsePartitions)
    .addOption(
      new Option('--per <what>', 'run it once for many records, or for each')
        .choices(['chunk', 'record'])
        .default('chunk'),
    )
    .addHelpText(
      'after',
      programHelp(
        ['from', 'to', 'count'],
        'Records come on standard input; what it prints is kept in order. {count} is known where --partitions says it.',
      ),
    )
    .action((words: string[], flags: ProgramFlags & DatasetFlags & { per: string }, command: Command) =>
      act(command, async (context) =>
        start(context, command, flags, {
          kind: 'map',
          ...(await programOf(context, words, flags)),
          ...given({ partitions: flags.partitions }),
          per: flags.per,
          dataset: datasetOf(context, flags),
        }),
      ),
    );

  dataset(common(add('inference <model>', 'a served model over the records of a file', run)))
    .addOption(
      new Option('--task <task>', 'what it is asked for')
        .choices(['chat', 'completion', 'embedding'])
        .default('chat'),
    )
    .option('--prompt <text>', 'with {field} of the record (default: the record itself)')
    .option('--system <text>', 'system message')
    .option('--max-tokens <n>', 'of each answer', parseWhole(1, 1_000_000))
    .option('--concurrency <n>', 'requests at once in a partition', parseWhole(1, 64))
    .option('--partitions <n>', 'exactly so many (default: by speed)', parsePartitions)
    .action((model: string, flags: InferenceFlags, command: Command) =>
      act(command, (context) =>
        start(context, command, flags, {
          kind: 'inference',
          name: jobNameOf(`${model} ${basename(flags.dataset)}`),
          model,
          task: flags.task,
          dataset: datasetOf(context, flags),
          ...given({
            prompt: flags.prompt,
            system: flags.system,
            concurrency: flags.concurrency,
            partitions: flags.partitions,
            parameters: flags.maxTokens === undefined ? undefined : { max_tokens: flags.maxTokens },
          }),
        }),
      ),
    );

  program(common(add('gang [command...]', 'a program on several machines at once', run), ['shares']))
    .requiredOption('--ranks <n>', 'how many', parseWhole(1, 1024))
    .option('--per-node <n>', 'at most so many on one machine', parseWhole(1, 1024))
    .option('--ports <n>', 'free ports for each', parseWhole(0, 16))
    .option('--restarts <n>', 'starts of all of them after one has failed', parseWhole(0, 100))
    .option('--output <path>', 'a file or folder in {output} to keep; again for more', gather, [])
    .addHelpText('after', programHelp(['count']))
    .action((words: string[], flags: GangFlags, command: Command) =>
      act(command, async (context) =>
        start(context, command, flags, {
          kind: 'gang',
          ...(await programOf(context, words, flags)),
          outputs: flags.output.map((path) => ({ path })),
          ranks: flags.ranks,
          ...given({ perNode: flags.perNode, ports: flags.ports, restarts: flags.restarts }),
        }),
      ),
    );
};

interface KernelFlags extends CommonFlags {
  readonly type?: string;
  readonly partitions?: number | 'auto';
  readonly bins?: number;
  readonly low?: number;
  readonly high?: number;
}
interface InferenceFlags extends CommonFlags, DatasetFlags {
  readonly task: string;
  readonly prompt?: string;
  readonly system?: string;
  readonly maxTokens?: number;
  readonly concurrency?: number;
  readonly partitions?: number | 'auto';
}
interface GangFlags extends ProgramFlags {
  readonly ranks: number;
  readonly perNode?: number;
  readonly ports?: number;
  readonly restarts?: number;
}

const hint =
  'Examples: covey run job.yaml, covey run kernel sum data.f64, covey run command -- ./tool {index}';

/** @param without what this kind of work does not take */
function common(command: Command, without: readonly ('shares' | 'cpus')[] = []): Command {
  command.option('--name <name>', 'of the job').option('--nodes <a,b>', 'only on these machines', parseList);
  if (!without.includes('shares')) {
    command.option('--shares <a=60,b=40>', 'shares by hand; machines not named get nothing', parseSplit);
  }
  if (!without.includes('cpus')) command.option('--cpus <n>', 'processors for each partition', parseNumber);
  return command
    .option('--memory <size>', 'memory for each partition, as in 2GB', parseSize)
    .option('--timeout <seconds>', 'for each attempt at a partition', parseSeconds)
    .option('--attempts <n>', 'at a partition that fails', parseWhole(1, 100))
    .option('--priority <n>', 'higher goes first', parseNumber)
    .option('--exclusive', 'never two attempts at once, even when a machine is lost', false);
}

function program(command: Command): Command {
  const before = command.configureOutput();
  return command
    .configureOutput({
      outputError(text, write) {
        before.outputError?.(text, write);
        // The program's own, most likely, unless one of ours is near.
        const isStray = /^error: unknown option/.test(text) && !text.includes('Did you mean');
        if (isStray)
          write('The program and its arguments come after "--": covey run command -- PROGRAM -x\n');
      },
    })
    .option('--script <file>', 'run this script instead of a command')
    .option('--interpreter <program>', 'of the script (default: /bin/sh)')
    .option('--input <path[=name]>', 'a file, folder or artifact for it; again for more', gather, [])
    .option('--env <name=value>', 'variable for it; again for more', pairs, {})
    .option('--secret <name=file>', 'path of a file with this content in NAME_FILE', pairs, {})
    .addOption(new Option('--network <what>', 'what it may see').choices(['none', 'lan']).default('none'));
}

/** @param more formats besides those of lines */
function dataset(command: Command, ...more: readonly string[]): Command {
  return command
    .requiredOption('--dataset <file>', 'file or artifact with the records')
    .addOption(
      new Option('--format <format>', "of the records (default: the file's extension)").choices([
        'jsonl',
        'text',
        ...more,
      ]),
    );
}

/** For records that are no lines. */
function fixedDataset(command: Command): Command {
  return command
    .option('--record-bytes <n>', 'binary: size of a record', parseWhole(1, 1024 * 1024))
    .option('--no-header', 'csv: the first record is no header');
}

async function runDocument(context: CommandContext, file: string, command: Command): Promise<void> {
  const path = resolve(context.io.workingDirectory, file);
  if (!existsSync(path)) {
    throw new UsageError(`There is no file ${printable(file)}.`, meantKind(file, command));
  }
  const found = statSync(path);
  if (!found.isFile()) throw new UsageError(`${file} is no file.`, hint);
  if (found.size > specLimitBytes)
    throw new UsageError(`${file} is too large for a specification (at most 1 MiB).`);
  const spec = readJobDocument(await readFile(path, 'utf8'), file);
  const named = { ...spec, name: spec.name ?? jobNameOf(basename(file, extname(file))) };
  await submit(context, named, dirname(path), isDetached(command));
}

function meantKind(word: string, command: Command): string {
  const kinds = command.commands.map((one) => one.name());
  const near = suggest(word, kinds);
  return near === null ? hint : `Did you mean "covey run ${near}"?`;
}

/** A name from words that nobody meant as one: files may be called anything. */
function jobNameOf(text: string): string {
  const name = [...text.replace(/\p{C}/gu, '')].slice(0, 64).join('').trim();
  return name === '' ? 'job' : name;
}

function isDetached(command: Command): boolean {
  return command.optsWithGlobals<{ detach?: boolean }>().detach === true;
}

async function start(
  context: CommandContext,
  command: Command,
  flags: CommonFlags,
  fields: object,
): Promise<void> {
  const spec = checkedSpec({
    ...fields,
    ...given({
      name: flags.name,
      timeoutMs: flags.timeout === undefined ? undefined : Math.round(flags.timeout * 1_000),
      priority: flags.priority,
      retry: flags.attempts === undefined ? undefined : { attempts: flags.attempts },
      distribution:
        flags.shares === undefined
          ? undefined
          : {
              mode: 'manual',
              shares: Object.entries(flags.shares).map(([node, percent]) => ({ node, percent })),
            },
    }),
    exclusive: flags.exclusive,
    requires: given({ nodes: flags.nodes, cpus: flags.cpus, memoryBytes: flags.memory }),
  });
  await submit(context, spec, context.io.workingDirectory, isDetached(command));
}

/** @param base the directory that relative paths of the specification start from */
async function submit(context: CommandContext, spec: JobSpec, base: string, detach: boolean): Promise<void> {
  const { io, json } = context;
  await precheck(context, spec, base);
  const fresh: ArtifactView[] = [];
  /** Before that there can be no job, whatever ends it. */
  let isSubmitted = false;
  let job: JobView;
  try {
    const put = async (path: string): Promise<string> => {
      const { artifact, wasKept } = await putPath(context, path);
      if (!wasKept) fresh.push(artifact);
      return artifact.id;
    };
    const ready = await putFilesOf(spec, base, put);
    isSubmitted = true;
    job = await submitOnce(context, ready);
  } catch (error) {
    if (!isSubmitted || wasRefused(error)) await letGo(context, fresh);
    throw namingFile(error, spec, base);
  }
  if (!detach) return finishJob(context, job);
  if (json) return io.out(`${JSON.stringify(job)}\n`);
  tell(io, `${jobName(job)} is submitted.\n"covey jobs wait ${job.id}" waits for it.\n`);
}

async function programOf(context: CommandContext, words: readonly string[], flags: ProgramFlags) {
  const { io } = context;
  const script =
    flags.script === undefined ? undefined : await textOf(context, flags.script, '--script', specLimitBytes);
  const secrets: Record<string, string> = {};
  for (const [name, file] of Object.entries(flags.secret)) {
    secrets[name] = await textOf(context, file, '--secret', 65_536);
  }
  const program = words[0];
  return {
    name: jobNameOf(basename(flags.script ?? program ?? 'command')),
    ...given({ script, interpreter: flags.interpreter?.split(' ') }),
    ...(words.length > 0 ? { command: words } : {}),
    env: flags.env,
    secrets,
    network: flags.network,
    inputs: inputsOf(
      context,
      flags.input,
      program === undefined ? null : toolHere(io.workingDirectory, program),
    ),
  };
}

/** `./tool` that is a file here is taken along, under its own path. */
function toolHere(workingDirectory: string, program: string): string | null {
  if (!/^\.\//.test(program)) return null;
  const path = resolve(workingDirectory, program);
  return existsSync(path) && statSync(path).isFile() ? program : null;
}

/** `PATH` is found under its last part, `PATH=NAME` under NAME. The tool may be in one of them. */
function inputsOf(context: CommandContext, values: readonly string[], tool: string | null) {
  const inputs = values.map((value) => {
    // A file may have the sign in its name.
    const cut = existsSync(resolve(context.io.workingDirectory, value)) ? -1 : value.lastIndexOf('=');
    const ref = cut === -1 ? value : value.slice(0, cut);
    return { artifact: reference(context, ref), path: cut === -1 ? basename(ref) : value.slice(cut + 1) };
  });
  const covered = inputs.some(({ path }) => tool === `./${path}` || tool?.startsWith(`./${path}/`) === true);
  if (tool !== null && !covered) inputs.push({ artifact: tool, path: tool.slice(2) });
  return inputs;
}

function datasetOf(context: CommandContext, flags: DatasetFlags) {
  return {
    artifact: reference(context, flags.dataset),
    format: flags.format ?? formatOf(flags.dataset),
    ...given({ recordBytes: flags.recordBytes, header: flags.header }),
  };
}

/** In short forms a file that is here is meant, else an artifact of that name. */
function reference({ io }: CommandContext, text: string): string {
  if (isPath(text)) return text;
  return existsSync(resolve(io.workingDirectory, text)) ? `./${text}` : text;
}

function typeOf(input: string): string {
  const type = elementTypeSchema.safeParse(extname(input).slice(1));
  if (type.success) return type.data;
  throw new UsageError(
    `Say what the elements of ${printable(input)} are: --type ${elementTypeSchema.options.join('|')}.`,
  );
}

function formatOf(file: string): string {
  const known: Readonly<Record<string, string>> = {
    '.csv': 'csv',
    '.jsonl': 'jsonl',
    '.ndjson': 'jsonl',
    '.txt': 'text',
    '.bin': 'binary',
  };
  const format = known[extname(file).toLowerCase()];
  if (format !== undefined) return format;
  throw new UsageError(`Say what ${printable(file)} holds: --format csv|jsonl|text|binary.`);
}

async function textOf(
  { io }: CommandContext,
  file: string,
  option: string,
  limitBytes: number,
): Promise<string> {
  const path = resolve(io.workingDirectory, file);
  if (!existsSync(path)) throw new UsageError(`${option}: there is no ${path}.`);
  if (statSync(path).size > limitBytes) throw new UsageError(`${option}: ${path} is too large.`);
  return readFile(path, 'utf8');
}

/** Without what was not given. */
function given<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

function gather(value: string, before: readonly string[]): string[] {
  return [...before, value];
}

function pairs(value: string, before: Readonly<Record<string, string>>): Record<string, string> {
  const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/s.exec(value);
  if (!match?.[1]) throw new InvalidArgumentError(`"${value}" is not NAME=VALUE.`);
  return { ...before, [match[1]]: match[2] ?? '' };
}

function parsePartitions(text: string): number | 'auto' {
  return text === 'auto' ? 'auto' : parseWhole(1, 100_000)(text);
}
