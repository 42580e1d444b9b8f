import type { z } from 'zod';
import { jobSpecSchema, type JobKind, type JobSpec } from '#shared/domain/job-spec.ts';
import { checkJobSpec, type SpecProblem } from '#shared/domain/job-rules.ts';
import { fromDistribution, toDistribution, type HandShares } from './distribution.ts';
import { joinWords, splitWords } from './shell-words.ts';

/** A number field: empty stands for the default. */
export type NumberText = number | '';
export interface Pair {
  readonly name: string;
  readonly value: string;
}

/** The form of a new job: fields of all kinds, so that a change of the kind keeps what they have in common. */
export interface JobDraft {
  readonly kind: JobKind;
  readonly name: string;
  readonly kernel: string;
  readonly type: string;
  readonly input: string;
  readonly second: string;
  readonly bins: NumberText;
  readonly low: NumberText;
  readonly high: NumberText;
  readonly runs: 'command' | 'script';
  readonly command: string;
  readonly script: string;
  readonly interpreter: string;
  readonly env: readonly Pair[];
  readonly secrets: readonly Pair[];
  readonly inputs: readonly { readonly artifact: string; readonly path: string }[];
  readonly outputs: readonly { readonly path: string; readonly optional: boolean }[];
  readonly limitMiB: NumberText;
  readonly limitProcesses: NumberText;
  readonly limitOutputMiB: NumberText;
  readonly network: 'none' | 'lan';
  readonly partitions: NumberText;
  readonly dataset: string;
  readonly format: string;
  readonly recordBytes: NumberText;
  readonly header: boolean;
  readonly per: 'chunk' | 'record';
  readonly model: string;
  readonly task: string;
  readonly prompt: string;
  readonly system: string;
  /** JSON of an object. */
  readonly parameters: string;
  readonly concurrency: NumberText;
  readonly ranks: NumberText;
  readonly perNode: NumberText;
  readonly ports: NumberText;
  readonly restarts: NumberText;
  readonly nodes: readonly string[];
  readonly os: string | null;
  readonly arch: string | null;
  readonly cpus: NumberText;
  readonly memoryMiB: NumberText;
  readonly attempts: NumberText;
  readonly backoffS: NumberText;
  /** Numbers with commas between them. */
  readonly exitCodes: string;
  readonly timeoutMin: NumberText;
  readonly exclusive: boolean;
  readonly speculative: 'default' | 'yes' | 'no';
  readonly priority: NumberText;
  /** null: by speed. */
  readonly shares: HandShares | null;
}

export const emptyDraft: JobDraft = {
  kind: 'kernel',
  name: '',
  kernel: 'sum',
  type: 'f64',
  input: '',
  second: '',
  bins: '',
  low: '',
  high: '',
  runs: 'command',
  command: '',
  script: '',
  interpreter: '',
  env: [],
  secrets: [],
  inputs: [],
  outputs: [],
  limitMiB: '',
  limitProcesses: '',
  limitOutputMiB: '',
  network: 'none',
  partitions: '',
  dataset: '',
  format: 'jsonl',
  recordBytes: '',
  header: true,
  per: 'chunk',
  model: '',
  task: 'chat',
  prompt: '',
  system: '',
  parameters: '',
  concurrency: '',
  ranks: 2,
  perNode: '',
  ports: '',
  restarts: '',
  nodes: [],
  os: null,
  arch: null,
  cpus: '',
  memoryMiB: '',
  attempts: '',
  backoffS: '',
  exitCodes: '',
  timeoutMin: '',
  exclusive: false,
  speculative: 'default',
  priority: '',
  shares: null,
};

const MiB = 1024 * 1024;

export interface CheckedDraft {
  /** What would be sent: without what has its default. */
  readonly body: Readonly<Record<string, unknown>>;
  /** null: there are problems. */
  readonly spec: JobSpec | null;
  readonly problems: readonly SpecProblem[];
}

/** The specification that a form stands for, and what is wrong with it by the schema and by the rules. */
export function checkDraft(draft: JobDraft): CheckedDraft {
  const own: SpecProblem[] = [];
  const body = bodyOf(draft, (field, message) => own.push({ field, message }));
  const parsed = jobSpecSchema.safeParse(body);
  const found = parsed.success
    ? checkJobSpec(parsed.data)
    : parsed.error.issues.map((issue) => ({
        field: issue.path.join('.'),
        message: messageOf(issue),
      }));
  // What a field itself says of its text is closer than what comes of it.
  const problems = [...own, ...found.filter(({ field }) => own.every((one) => !covers(one.field, field)))];
  return { body, spec: parsed.success && problems.length === 0 ? parsed.data : null, problems };
}

function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type' && issue.message.endsWith('received undefined')) return 'is needed';
  return issue.message;
}

function covers(field: string, other: string): boolean {
  return other === field || other.startsWith(`${field}.`);
}

/** The first that is wrong with a field, or with a part of it; null: nothing. */
export function problemOf(problems: readonly SpecProblem[], field: string): string | null {
  return problems.find((problem) => covers(field, problem.field))?.message ?? null;
}

type Say = (field: string, message: string) => void;

function bodyOf(draft: JobDraft, say: Say): Record<string, unknown> {
  const { kind } = draft;
  return given({
    kind,
    name: text(draft.name.trim()),
    ...fieldsOf(draft, say),
    distribution: draft.shares === null || kind === 'gang' ? undefined : toDistribution(draft.shares),
    requires: group({
      nodes: list(draft.nodes),
      os: draft.os ?? undefined,
      arch: draft.arch ?? undefined,
      cpus: kind === 'kernel' ? undefined : number(draft.cpus),
      memoryBytes: scaled(draft.memoryMiB, MiB),
    }),
    retry: group({
      attempts: number(draft.attempts),
      backoffMs: scaled(draft.backoffS, 1_000),
      exitCodes: isProgram(kind) ? exitCodesOf(draft.exitCodes, say) : undefined,
    }),
    timeoutMs: scaled(draft.timeoutMin, 60_000),
    exclusive: draft.exclusive || undefined,
    speculative: draft.speculative === 'default' ? undefined : draft.speculative === 'yes',
    priority: number(draft.priority),
  });
}

export function isProgram(kind: JobKind): boolean {
  return kind === 'command' || kind === 'map' || kind === 'gang';
}

function fieldsOf(draft: JobDraft, say: Say): Record<string, unknown> {
  const { kind, kernel } = draft;
  switch (kind) {
    case 'kernel':
      return {
        kernel,
        type: draft.type,
        input: text(draft.input),
        ...(kernel === 'dot_product' ? { second: text(draft.second) } : {}),
        ...(kernel === 'histogram'
          ? { bins: number(draft.bins), low: number(draft.low), high: number(draft.high) }
          : {}),
        partitions: number(draft.partitions),
      };
    case 'command':
      return { ...programOf(draft, say), partitions: number(draft.partitions), outputs: outputsOf(draft) };
    case 'map':
      return {
        ...programOf(draft, say),
        dataset: datasetOf(draft),
        per: draft.per === 'chunk' ? undefined : draft.per,
        partitions: number(draft.partitions),
      };
    case 'inference':
      return {
        model: text(draft.model),
        task: draft.task,
        dataset: datasetOf(draft),
        prompt: text(draft.prompt),
        system: draft.task === 'chat' ? text(draft.system) : undefined,
        parameters: parametersOf(draft.parameters, say),
        concurrency: number(draft.concurrency),
        partitions: number(draft.partitions),
      };
    case 'gang':
      return {
        ...programOf(draft, say),
        ranks: number(draft.ranks),
        perNode: number(draft.perNode),
        ports: number(draft.ports),
        restarts: number(draft.restarts),
        outputs: outputsOf(draft),
      };
  }
}

function programOf(draft: JobDraft, say: Say): Record<string, unknown> {
  const words = (field: 'command' | 'interpreter'): readonly string[] | undefined => {
    const split = splitWords(draft[field]);
    if (split.ok) return list(split.words);
    say(field, split.problem);
    return undefined;
  };
  return {
    ...(draft.runs === 'command'
      ? { command: words('command') }
      : { script: text(draft.script), interpreter: words('interpreter') }),
    inputs: list(draft.inputs),
    env: pairsOf('env', draft.env, say),
    secrets: pairsOf('secrets', draft.secrets, say),
    limits: group({
      memoryBytes: scaled(draft.limitMiB, MiB),
      processes: number(draft.limitProcesses),
      outputBytes: scaled(draft.limitOutputMiB, MiB),
    }),
    network: draft.network === 'none' ? undefined : draft.network,
  };
}

function datasetOf({ dataset, format, recordBytes, header }: JobDraft): Record<string, unknown> {
  return given({
    artifact: text(dataset),
    format,
    recordBytes: format === 'binary' ? number(recordBytes) : undefined,
    header: format === 'csv' && !header ? false : undefined,
  });
}

function outputsOf({ outputs }: JobDraft) {
  return list(outputs.map(({ path, optional }) => (optional ? { path, optional } : { path })));
}

function pairsOf(field: string, pairs: readonly Pair[], say: Say): Record<string, string> | undefined {
  const twice = pairs.find(({ name }, index) => pairs.findIndex((other) => other.name === name) !== index);
  if (twice !== undefined) say(`${field}.${twice.name}`, 'is there twice');
  const empty = field === 'secrets' ? pairs.find(({ value }) => value === '') : undefined;
  if (empty !== undefined) say(`${field}.${empty.name}`, 'is needed');
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs.map(({ name, value }) => [name, value]));
}

function exitCodesOf(codes: string, say: Say): number[] | undefined {
  const parts = codes.split(/[\s,]+/).filter((part) => part !== '');
  if (parts.length === 0) return undefined;
  if (!parts.every((part) => /^\d{1,3}$/.test(part))) {
    say('retry.exitCodes', 'are numbers with commas between them');
    return undefined;
  }
  return parts.map(Number);
}

function parametersOf(json: string, say: Say): unknown {
  if (json.trim() === '') return undefined;
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Said below.
  }
  say('parameters', 'must be an object in JSON, such as {"max_tokens": 64}');
  return undefined;
}

const text = (value: string): string | undefined => (value === '' ? undefined : value);
const number = (value: NumberText): number | undefined => (value === '' ? undefined : value);
const scaled = (value: NumberText, by: number): number | undefined =>
  value === '' ? undefined : Math.round(value * by);
const list = <T>(values: readonly T[]): readonly T[] | undefined =>
  values.length === 0 ? undefined : values;

function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
function group(fields: Record<string, unknown>): Record<string, unknown> | undefined {
  const some = given(fields);
  return Object.keys(some).length === 0 ? undefined : some;
}

/** The form of a job that was submitted, to begin another with. Values of secrets are nowhere: they are empty. */
export function draftOf(spec: JobSpec): JobDraft {
  const { requires, retry } = spec;
  const common: JobDraft = {
    ...emptyDraft,
    kind: spec.kind,
    name: spec.name ?? '',
    shares: spec.distribution.mode === 'manual' ? fromDistribution(spec.distribution.shares) : null,
    nodes: requires.nodes ?? [],
    os: requires.os ?? null,
    arch: requires.arch ?? null,
    cpus: requires.cpus,
    memoryMiB: requires.memoryBytes / MiB,
    attempts: retry.attempts,
    backoffS: retry.backoffMs / 1_000,
    exitCodes: (retry.exitCodes ?? []).join(', '),
    timeoutMin: spec.timeoutMs / 60_000,
    exclusive: spec.exclusive,
    speculative: spec.speculative === undefined ? 'default' : spec.speculative ? 'yes' : 'no',
    priority: spec.priority,
  };
  const partitions = 'partitions' in spec && spec.partitions !== 'auto' ? spec.partitions : '';
  if (spec.kind === 'kernel') {
    const { kernel, type, input, second = '', bins = '', low = '', high = '' } = spec;
    return { ...common, kernel, type, input, second, bins, low, high, partitions };
  }
  if (spec.kind === 'inference') {
    const { model, task, prompt = '', system = '', concurrency, parameters } = spec;
    const json = Object.keys(parameters).length === 0 ? '' : JSON.stringify(parameters);
    return {
      ...common,
      ...datasetDraft(spec.dataset),
      model,
      task,
      prompt,
      system,
      concurrency,
      parameters: json,
      partitions,
    };
  }
  const program: JobDraft = {
    ...common,
    runs: spec.script === undefined ? 'command' : 'script',
    command: joinWords(spec.command ?? []),
    script: spec.script ?? '',
    interpreter: joinWords(spec.interpreter),
    env: Object.entries(spec.env).map(([name, value]) => ({ name, value })),
    secrets: Object.keys(spec.secrets).map((name) => ({ name, value: '' })),
    inputs: spec.inputs,
    limitMiB: spec.limits.memoryBytes / MiB,
    limitProcesses: spec.limits.processes,
    limitOutputMiB: spec.limits.outputBytes / MiB,
    network: spec.network,
  };
  if (spec.kind === 'map') return { ...program, ...datasetDraft(spec.dataset), per: spec.per, partitions };
  if (spec.kind === 'command') return { ...program, outputs: spec.outputs, partitions };
  const { outputs, ranks, perNode = '', ports, restarts } = spec;
  return { ...program, outputs, ranks, perNode, ports, restarts };
}

function datasetDraft({
  artifact,
  format,
  recordBytes,
  header,
}: Extract<JobSpec, { kind: 'map' }>['dataset']) {
  return { dataset: artifact, format, recordBytes: recordBytes ?? ('' as const), header };
}
