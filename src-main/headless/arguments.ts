import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { hostname } from 'node:os';
import { defaults, listenAddressSchema, type ListenAddress } from '#shared/config.ts';

/** Flags that both roles share. */
interface CommonArguments {
  readonly data: string | undefined;
  readonly name: string;
  readonly engine: string | undefined;
  readonly json: boolean;
  readonly readyFile: string | undefined;
  readonly exitWithParent: boolean;
  readonly cluster: ListenAddress;
  /** Announce this machine and listen for others; the settings may switch it off as well. */
  readonly discovery: boolean;
}

export interface ControllerArguments extends CommonArguments {
  readonly api: ListenAddress;
  readonly lend: boolean;
}

export interface WorkerArguments extends CommonArguments {
  /** A join string, or `-` for the first line of standard input. */
  readonly join: string | undefined;
  /** `HOST` or `HOST:PORT`, tried before the addresses of the join string. */
  readonly controller: string | undefined;
  /** null: serve no API on this machine. */
  readonly api: ListenAddress | null;
}

export type Parsed<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly exitCode: number };

function listen(text: string): ListenAddress {
  const parsed = listenAddressSchema.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError(parsed.error.issues[0]?.message ?? 'must be HOST:PORT');
}

function listenOrNone(text: string): ListenAddress | 'none' {
  return text === 'none' ? 'none' : listen(text);
}

function nodeName(text: string): string {
  if (/^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u.test(text)) return text;
  throw new InvalidArgumentError('must be 1 to 64 letters, digits, dots, dashes or underscores');
}

const defaultApi: ListenAddress = { host: defaults.apiHost, port: defaults.apiPort };
const defaultCluster: ListenAddress = { host: defaults.clusterHost, port: defaults.clusterPort };

function base(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .showHelpAfterError('(--help lists the options)')
    .allowExcessArguments(false)
    .option('--data <dir>', "data directory (default: the system's place for Covey)")
    .option('--name <name>', 'name of this machine in the covey (default: its host name)', nodeName)
    .option(
      '--cluster <host:port>',
      'where other machines reach this one; port 0: any',
      listen,
      defaultCluster,
    )
    .option('--engine <dir>', 'engine directory (default: the one that was built)')
    .option('--no-discovery', 'neither announce this machine nor listen for others')
    .option('--json', 'print the ready report as JSON', false)
    .option('--ready-file <file>', 'write the ready report there')
    .option('--exit-with-parent', 'stop when standard input closes', false);
}

export function parseControllerArguments(argv: readonly string[]): Parsed<ControllerArguments> {
  const command = base(
    'covey controller',
    'Run the controller: it knows the machines, decides, and serves the API.',
  )
    .option('--api <host:port>', 'where apps reach the API; port 0: any', listen, defaultApi)
    .option('--lend', 'also lend this machine to the covey', false);
  return parse(command, argv, (options) => ({
    ...common(options),
    api: options['api'] as ListenAddress,
    lend: options['lend'] as boolean,
  }));
}

export function parseWorkerArguments(argv: readonly string[]): Parsed<WorkerArguments> {
  const command = base('covey worker', 'Lend this machine to a covey.')
    .option(
      '--join <string>',
      'join string from "covey invite"; - reads it from standard input (without: "covey join")',
    )
    .option(
      '--controller <host:port>',
      'with --join: where the controller is, tried before what the join string says',
    )
    .option('--api <host:port|none>', 'where apps on this machine reach the covey', listenOrNone, defaultApi);
  return parse(command, argv, (options) => ({
    ...common(options),
    join: options['join'] as string | undefined,
    controller: besideJoin(command, options),
    api: options['api'] === 'none' ? null : (options['api'] as ListenAddress),
  }));
}

function besideJoin(command: Command, options: Record<string, unknown>): string | undefined {
  const controller = options['controller'] as string | undefined;
  if (controller === undefined || options['join'] !== undefined) return controller;
  return command.error(
    `error: --controller goes with --join; to ask a controller by its address, run "covey join ${controller}" when this worker is up`,
  );
}

function common(options: Record<string, unknown>): CommonArguments {
  return {
    data: options['data'] as string | undefined,
    name:
      (options['name'] as string | undefined) ??
      hostname()
        .replace(/[^\p{L}\p{N}._-]+/gu, '-')
        .slice(0, 64),
    engine: options['engine'] as string | undefined,
    json: options['json'] as boolean,
    readyFile: options['readyFile'] as string | undefined,
    exitWithParent: options['exitWithParent'] as boolean,
    cluster: options['cluster'] as ListenAddress,
    discovery: options['discovery'] as boolean,
  };
}

function parse<T>(
  command: Command,
  argv: readonly string[],
  read: (options: Record<string, unknown>) => T,
): Parsed<T> {
  try {
    command.parse([...argv], { from: 'user' });
    return { ok: true, value: read(command.opts()) };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { ok: false, exitCode: error.exitCode === 0 ? 0 : 2 };
  }
}
