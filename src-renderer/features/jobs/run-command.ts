import { joinWords } from './shell-words.ts';
import type { CheckedDraft } from './job-draft.ts';

type Fields = Readonly<Record<string, unknown>>;
const specFile = 'job.json';

/**
 * The `covey run` that submits the same job: a short form where one has all of it, else the specification as a
 * file. `body`: as `checkDraft` makes it, without what has its default.
 */
export function runCommand(body: CheckedDraft['body']): {
  readonly line: string;
  readonly usesFile: boolean;
} {
  const words = shortForm(body);
  return words === null
    ? { line: joinWords(['covey', 'run', specFile]), usesFile: true }
    : { line: joinWords(['covey', 'run', ...words]), usesFile: false };
}

/** Fields of the specification that each short form has a word or an option for. */
const commonFields = [
  'kind',
  'name',
  'distribution',
  'requires',
  'retry',
  'timeoutMs',
  'exclusive',
  'priority',
];
const programFields = ['command', 'inputs', 'env', 'network'];
const known: Readonly<Record<string, readonly string[]>> = {
  kernel: ['kernel', 'type', 'input', 'second', 'bins', 'low', 'high', 'partitions'],
  command: [...programFields, 'partitions', 'outputs'],
  map: [...programFields, 'dataset', 'per', 'partitions'],
  inference: ['model', 'task', 'dataset', 'prompt', 'system', 'parameters', 'concurrency', 'partitions'],
  gang: [...programFields, 'ranks', 'perNode', 'ports', 'restarts', 'outputs'],
};

function shortForm(body: Fields): string[] | null {
  const kind = String(body['kind']);
  const fields = [...commonFields, ...(known[kind] ?? [])];
  if (Object.keys(body).some((field) => !fields.includes(field))) return null;
  const options = commonOptions(body);
  if (options === null) return null;
  const partitions = option('--partitions', body['partitions']);
  if (kind === 'kernel') {
    const operands = [
      body['kernel'],
      body['input'] ?? 'FILE',
      ...(body['second'] === undefined ? [] : [body['second']]),
    ];
    return [
      kind,
      ...operands.map(String),
      ...option('--type', body['type']),
      ...option('--bins', body['bins']),
      ...option('--low', body['low']),
      ...option('--high', body['high']),
      ...partitions,
      ...options,
    ];
  }
  if (kind === 'inference') {
    const parameters = (body['parameters'] ?? {}) as Fields;
    if (Object.keys(parameters).some((name) => name !== 'max_tokens')) return null;
    return [
      kind,
      (body['model'] ?? 'MODEL') as string,
      ...datasetOptions(body),
      ...(body['task'] === 'chat' ? [] : option('--task', body['task'])),
      ...option('--prompt', body['prompt']),
      ...option('--system', body['system']),
      ...option('--max-tokens', parameters['max_tokens']),
      ...option('--concurrency', body['concurrency']),
      ...partitions,
      ...options,
    ];
  }
  const program = programOptions(body);
  if (program === null) return null;
  const { before, command } = program;
  const own =
    kind === 'map'
      ? [...datasetOptions(body), ...option('--per', body['per']), ...partitions]
      : kind === 'gang'
        ? [
            ...option('--ranks', body['ranks']),
            ...option('--per-node', body['perNode']),
            ...option('--ports', body['ports']),
            ...option('--restarts', body['restarts']),
          ]
        : partitions;
  return [kind, ...own, ...before, ...options, '--', ...command];
}

function commonOptions(body: Fields): string[] | null {
  const requires = (body['requires'] ?? {}) as Fields;
  const retry = (body['retry'] ?? {}) as Fields;
  if (Object.keys(requires).some((name) => !['nodes', 'cpus', 'memoryBytes'].includes(name))) return null;
  if (Object.keys(retry).some((name) => name !== 'attempts')) return null;
  const nodes = requires['nodes'] as readonly string[] | undefined;
  const { shares } = (body['distribution'] ?? {}) as {
    readonly shares?: readonly { readonly node: string; readonly percent: number }[];
  };
  const timeoutMs = body['timeoutMs'] as number | undefined;
  return [
    ...option('--name', body['name']),
    ...option('--nodes', nodes?.join(',')),
    ...option('--shares', shares?.map(({ node, percent }) => `${node}=${percent}`).join(',')),
    ...option('--cpus', requires['cpus']),
    ...option('--memory', sizeOf(requires['memoryBytes'] as number | undefined)),
    ...option('--timeout', timeoutMs === undefined ? undefined : timeoutMs / 1_000),
    ...option('--attempts', retry['attempts']),
    ...option('--priority', body['priority']),
    ...(body['exclusive'] === true ? ['--exclusive'] : []),
  ];
}

function programOptions(body: Fields): { before: string[]; command: string[] } | null {
  const inputs = (body['inputs'] ?? []) as readonly { readonly artifact: string; readonly path: string }[];
  const outputs = (body['outputs'] ?? []) as readonly {
    readonly path: string;
    readonly optional?: boolean;
  }[];
  // The option has "=" between the two.
  if (
    outputs.some(({ optional }) => optional === true) ||
    inputs.some(({ artifact }) => artifact.includes('='))
  ) {
    return null;
  }
  const env = Object.entries((body['env'] ?? {}) as Readonly<Record<string, string>>);
  return {
    before: [
      ...inputs.flatMap(({ artifact, path }) => [
        '--input',
        artifact === path ? path : `${artifact}=${path}`,
      ]),
      ...env.flatMap(([name, value]) => ['--env', `${name}=${value}`]),
      ...outputs.flatMap(({ path }) => ['--output', path]),
      ...option('--network', body['network']),
    ],
    command: [...((body['command'] ?? ['PROGRAM']) as readonly string[])],
  };
}

function datasetOptions(body: Fields): string[] {
  const { artifact, format, recordBytes, header } = (body['dataset'] ?? {}) as Fields;
  return [
    ...option('--dataset', artifact ?? 'FILE'),
    ...option('--format', format),
    ...option('--record-bytes', recordBytes),
    ...(header === false ? ['--no-header'] : []),
  ];
}

function option(name: string, value: unknown): string[] {
  if (value === undefined) return [];
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  // Else it would be read as another option.
  return text.startsWith('-') ? [`${name}=${text}`] : [name, text];
}

function sizeOf(bytes: number | undefined): string | undefined {
  if (bytes === undefined) return undefined;
  const MiB = 1024 * 1024;
  return bytes % MiB === 0 ? `${bytes / MiB}MB` : String(bytes);
}
