import { hostname } from 'node:os';
import { defaults, listenAddressSchema, type ListenAddress } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';

export interface DesktopArguments {
  readonly data: string | undefined;
  readonly engine: string | undefined;
  readonly name: string;
  readonly api: ListenAddress;
  readonly cluster: ListenAddress;
  readonly discovery: boolean;
  /** Started with the session of the person: no window. */
  readonly hidden: boolean;
  /** A link that the system handed over. */
  readonly link: string | null;
}

const valued = ['data', 'engine', 'name', 'api', 'cluster'] as const;
type Valued = (typeof valued)[number];

/**
 * Reads the arguments that are ours; others belong to Chromium or to the system and are passed over.
 * @param argv without the program, and without the script of a development run
 * @throws CoveyError `invalid_request` naming the option
 */
export function parseDesktopArguments(argv: readonly string[]): DesktopArguments {
  const found: Partial<Record<Valued, string>> = {};
  for (const argument of argv) {
    const match = /^--([a-z]+)=(.*)$/s.exec(argument);
    const name = valued.find((one) => one === match?.[1]);
    if (name !== undefined && match?.[2]) found[name] = match[2];
  }
  return {
    data: found.data,
    engine: found.engine,
    name: found.name ?? systemName(),
    api: listen('api', found.api) ?? { host: defaults.apiHost, port: defaults.apiPort },
    cluster: listen('cluster', found.cluster) ?? { host: defaults.clusterHost, port: defaults.clusterPort },
    discovery: !argv.includes('--no-discovery'),
    hidden: argv.includes('--hidden'),
    link: linkIn(argv),
  };
}

/** The `covey://` link among arguments: Windows and Linux start the app with it. */
export function linkIn(argv: readonly string[]): string | null {
  return argv.find((argument) => /^covey:\/\//i.test(argument)) ?? null;
}

function listen(option: string, text: string | undefined): ListenAddress | null {
  if (text === undefined) return null;
  const parsed = listenAddressSchema.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new CoveyError('invalid_request', `--${option} ${parsed.error.issues[0]?.message}.`, {
    field: option,
  });
}

/** The computer's name, in the letters that names of machines may have. */
function systemName(): string {
  const name = hostname()
    .replace(/\.local$/, '')
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .replace(/^[^\p{L}\p{N}]+/u, '')
    .slice(0, 64);
  return name === '' ? 'computer' : name;
}
