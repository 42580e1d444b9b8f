import { kernelTypes } from './kernel-call.ts';
import { histogramProblem } from './kernel-results.ts';
import type { Dataset, JobKind, JobSpec, JobSpecOf } from './job-spec.ts';
import { parseTemplate } from './template.ts';

/** What is wrong with a field, because of others. */
export interface SpecProblem {
  /** Path as `dataset.recordBytes`. */
  readonly field: string;
  readonly message: string;
}

type ProgramSpec = JobSpecOf<'command'> | JobSpecOf<'map'> | JobSpecOf<'gang'>;

/** Environment variables that Covey itself sets for programs. */
const reservedEnv = /^COVEY_/;

/**
 * What fields of a specification need of one another; the schema has checked each by itself. References to
 * machines and artifacts are not looked up here. Empty: nothing is wrong.
 */
export function checkJobSpec(spec: JobSpec): SpecProblem[] {
  return [...checkCommon(spec), ...checkKind(spec)];
}

function checkKind(spec: JobSpec): SpecProblem[] {
  switch (spec.kind) {
    case 'kernel':
      return checkKernel(spec);
    case 'command':
      return [...checkProgram(spec, ['count']), ...checkOutputs(spec.outputs)];
    case 'map':
      return [
        // Ranges that are cut off by speed have no fixed number.
        ...checkProgram(spec, spec.partitions === 'auto' ? ['from', 'to'] : ['from', 'to', 'count']),
        ...checkDataset(spec.dataset),
      ];
    case 'inference':
      return checkInference(spec);
    case 'gang':
      return [
        ...checkProgram(spec, ['count']),
        ...checkOutputs(spec.outputs),
        ...when(
          spec.perNode !== undefined && spec.perNode > spec.ranks,
          'perNode',
          'must not be more than `ranks`',
        ),
      ];
  }
}

function checkCommon(spec: JobSpec): SpecProblem[] {
  const problems: SpecProblem[] = [];
  if (spec.distribution.mode === 'manual') {
    const nodes = spec.distribution.shares.map((share) => share.node);
    const twice = firstTwice(nodes);
    if (twice !== null) problems.push(problem('distribution.shares', `names ${twice} twice`));
    if (spec.kind === 'gang') {
      problems.push(
        problem(
          'distribution.mode',
          'a gang runs on as many machines as it needs: use `requires.nodes`, `perNode`',
        ),
      );
    }
  }
  const twice = firstTwice(spec.requires.nodes ?? []);
  if (twice !== null) problems.push(problem('requires.nodes', `names ${twice} twice`));
  if (spec.speculative === true) {
    if (spec.exclusive) {
      problems.push(problem('speculative', 'a second copy is what `exclusive` forbids: set one of them'));
    }
    if (spec.kind === 'gang') problems.push(problem('speculative', 'ranks of a gang have no second copies'));
  }
  const programKinds: readonly JobKind[] = ['command', 'map', 'gang'];
  if (spec.retry.exitCodes !== undefined && !programKinds.includes(spec.kind)) {
    problems.push(problem('retry.exitCodes', `work of kind ${spec.kind} has no exit codes`));
  }
  return problems;
}

function checkKernel(spec: JobSpecOf<'kernel'>): SpecProblem[] {
  const { kernel, type } = spec;
  const histogram = kernel === 'histogram';
  const types = kernelTypes[kernel];
  const unfit = histogramProblem(spec);
  return [
    ...when(
      spec.requires.cpus !== 1,
      'requires.cpus',
      'a kernel uses all processors that a machine lends: leave it out',
    ),
    ...when(!types.includes(type), 'type', `${kernel} takes ${types.join(', ')}, not ${type}`),
    ...when(
      kernel === 'dot_product' && spec.second === undefined,
      'second',
      'dot_product needs a second vector',
    ),
    ...when(kernel !== 'dot_product' && spec.second !== undefined, 'second', `${kernel} takes one input`),
    ...(['bins', 'low', 'high'] as const).flatMap((field) => [
      ...when(histogram && spec[field] === undefined, field, 'histogram needs it'),
      ...when(!histogram && spec[field] !== undefined, field, `${kernel} does not take it`),
    ]),
    ...when(histogram && unfit !== null, unfit?.field ?? '', unfit?.message ?? ''),
  ];
}

function checkInference(spec: JobSpecOf<'inference'>): SpecProblem[] {
  const { dataset, task, system } = spec;
  const reserved = ['model', 'messages', 'prompt', 'input', 'stream'].find((key) => key in spec.parameters);
  return [
    ...when(
      dataset.format !== 'jsonl' && dataset.format !== 'text',
      'dataset.format',
      `work of kind inference reads jsonl or text, not ${dataset.format}`,
    ),
    ...checkDataset(dataset),
    ...when(system !== undefined && task !== 'chat', 'system', 'only chat has a system message'),
    ...when(reserved !== undefined, `parameters.${reserved}`, 'is set by the job itself'),
  ];
}

function checkDataset({ format, recordBytes }: Dataset): SpecProblem[] {
  return [
    ...when(
      format === 'binary' && recordBytes === undefined,
      'dataset.recordBytes',
      'binary records need their size',
    ),
    ...when(
      format !== 'binary' && recordBytes !== undefined,
      'dataset.recordBytes',
      `records of ${format} have no fixed size`,
    ),
  ];
}

function checkProgram(spec: ProgramSpec, more: readonly string[]): SpecProblem[] {
  const { command, script, env, inputs, secrets } = spec;
  const paths = inputs.map((input) => input.path);
  const names = new Set(['index', 'attempt', 'cpus', 'output', ...more]);
  if (inputs.length > 0) names.add('input');
  for (const path of paths) names.add(`input.${path}`);
  const text = (field: string, value: string): SpecProblem[] => checkTemplate(field, value, names);
  const secretFiles = new Set(Object.keys(secrets).map((name) => `${name}_FILE`));
  return [
    ...when(command === undefined && script === undefined, 'command', 'say what runs: `command` or `script`'),
    ...when(
      command !== undefined && script !== undefined,
      'script',
      '`command` and `script` exclude each other',
    ),
    ...when(command?.[0] === '', 'command.0', 'is the program: it must not be empty'),
    ...(command ?? []).flatMap((argument, index) => text(`command.${index}`, argument)),
    ...Object.entries(env).flatMap(([name, value]) => [
      ...text(`env.${name}`, value),
      ...when(reservedEnv.test(name), `env.${name}`, 'names with COVEY_ are set by Covey'),
      ...when(secretFiles.has(name), `env.${name}`, 'is the path of the secret of that name'),
    ]),
    ...Object.keys(secrets).flatMap((name) =>
      when(reservedEnv.test(name), `secrets.${name}`, 'names with COVEY_ are set by Covey'),
    ),
    ...paths.flatMap((path, index) => checkPlace(`inputs.${index}.path`, path, paths.slice(0, index))),
  ];
}

function checkOutputs(outputs: ReadonlyArray<{ readonly path: string }>): SpecProblem[] {
  const paths = outputs.map((output) => output.path);
  return paths.flatMap((path, index) => checkPlace(`outputs.${index}.path`, path, paths.slice(0, index)));
}

/** Two things cannot lie at the same place, nor one inside the other. */
function checkPlace(field: string, path: string, earlier: readonly string[]): SpecProblem[] {
  const other = earlier.find(
    (one) => one === path || one.startsWith(`${path}/`) || path.startsWith(`${one}/`),
  );
  return when(other !== undefined, field, other === path ? 'is there twice' : `overlaps ${other}`);
}

function checkTemplate(field: string, value: string, names: ReadonlySet<string>): SpecProblem[] {
  const parsed = parseTemplate(value);
  if (!parsed.ok) return [problem(field, parsed.problem)];
  return parsed.parts.flatMap((part) => {
    if (part.type === 'text' || names.has(part.name)) return [];
    const known = [...names].map((name) => `{${name}}`).slice(0, 16);
    return [problem(field, `there is no {${part.name}} here; there are ${known.join(' ')}`)];
  });
}

function when(wrong: boolean, field: string, message: string): SpecProblem[] {
  return wrong ? [problem(field, message)] : [];
}

function problem(field: string, message: string): SpecProblem {
  return { field, message };
}

function firstTwice(values: readonly string[]): string | null {
  return values.find((value, index) => values.indexOf(value) !== index) ?? null;
}
