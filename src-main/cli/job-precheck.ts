import { existsSync, statSync } from 'node:fs';
import { posix, resolve } from 'node:path';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { JobSpec } from '#shared/domain/job-spec.ts';
import { elementBytes } from '#shared/domain/kernel-call.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from './context.ts';
import { UsageError } from './failure.ts';
import { isPath, referencesOf } from './job-files.ts';
import { printable } from './text.ts';

/**
 * What can be known of a specification before a file of it is sent, so that nobody waits for gigabytes to hear it:
 * that files have a size that fits, and that programs, machines, models and artifacts that it names exist. What cannot be
 * asked is passed over: the controller looks at everything again.
 * @param base the directory that relative paths start from
 * @throws UsageError, CoveyError naming the field
 */
export async function precheck(context: CommandContext, spec: JobSpec, base: string): Promise<void> {
  checkProgram(spec, base);
  checkSizes(spec, base);
  const references = referencesOf(spec);
  // With nothing to send the refusal comes at once.
  if (!references.some(({ ref }) => isPath(ref))) return;
  await checkMachines(context, spec);
  await checkModel(context, spec);
  for (const { ref } of references.filter((one) => !isPath(one.ref))) {
    try {
      await context.api.call('artifact', { params: { artifact: ref } });
    } catch (error) {
      if (error instanceof CoveyError && error.code === 'artifact_not_found') {
        throw namingFile(error, spec, base, ref);
      }
    }
  }
}

/** `./x` is one of the inputs, or in one; what is in an artifact that is there already is not known here. */
function checkProgram(spec: JobSpec, base: string): void {
  const program = 'command' in spec ? spec.command?.[0] : undefined;
  // In braces there may be anything.
  if (!('inputs' in spec) || !program?.startsWith('./') || program.includes('{')) return;
  const path = posix.normalize(program);
  const places = spec.inputs.map((input) => ({ ...input, path: posix.normalize(input.path) }));
  // Windows finds a program without its extension.
  if (places.some((one) => one.path === `${path}.exe`)) return;
  const input = places.find((one) => `${path}/`.startsWith(`${one.path}/`));
  if (input !== undefined && !isPath(input.artifact)) return;
  const inside = input === undefined ? path : path.slice(input.path.length + 1);
  const here = resolve(base, input?.artifact ?? '.', inside);
  const found =
    statSync(here, { throwIfNoEntry: false }) ?? statSync(`${here}.exe`, { throwIfNoEntry: false });
  // Of an input that is not there itself, putting it says so.
  if (input !== undefined && (found ? !found.isDirectory() : inside === '')) return;
  const named = printable(program);
  const why = found?.isDirectory()
    ? `${named} is a folder, no program`
    : found
      ? `${named} is none of the inputs: add { artifact: ${named}, path: ${printable(path)} }`
      : `there is no program ${named}, neither here nor among the inputs`;
  throw new UsageError(`command.0: ${why}.`);
}

function checkSizes(spec: JobSpec, base: string): void {
  const sizeOf = (field: string, ref: string | undefined): number | null => {
    if (ref === undefined || !isPath(ref)) return null;
    const found = statSync(resolve(base, ref), { throwIfNoEntry: false });
    if (found?.isDirectory()) throw new UsageError(`${field}: must be a file, not a folder.`);
    return found?.isFile() ? found.size : null;
  };
  const whole = (field: string, bytes: number | null, size: number, what: string): void => {
    if (bytes === null || bytes % size === 0) return;
    throw new UsageError(`${field}: ${bytes} bytes are no whole number of ${what}.`);
  };
  if (spec.kind === 'kernel') {
    const [first, second] = [sizeOf('input', spec.input), sizeOf('second', spec.second)];
    whole('input', first, elementBytes[spec.type], `${spec.type} elements`);
    if (first !== null && second !== null && first !== second) {
      throw new UsageError(
        `second: both vectors must have the same length; they have ${first} and ${second} bytes.`,
      );
    }
  } else if ('dataset' in spec) {
    const { artifact, recordBytes } = spec.dataset;
    const bytes = sizeOf('dataset.artifact', artifact);
    if (recordBytes !== undefined) {
      whole('dataset.recordBytes', bytes, recordBytes, `records of ${recordBytes} bytes`);
    }
  }
}

async function checkMachines({ api }: CommandContext, spec: JobSpec): Promise<void> {
  const shares = spec.distribution.mode === 'manual' ? spec.distribution.shares : [];
  const named = [
    ...(spec.requires.nodes ?? []).map((ref, index) => ({ ref, field: `requires.nodes.${index}` })),
    ...shares.map(({ node }, index) => ({ ref: node, field: `distribution.shares.${index}.node` })),
  ];
  if (named.length === 0) return;
  const nodes = await api.call('nodes').then(
    (answer) => answer.nodes,
    () => null,
  );
  if (nodes === null) return;
  const unknown = named.find(
    ({ ref }) => !nodes.some(({ id, name }) => name === ref || (ref.length >= 6 && id.startsWith(ref))),
  );
  if (unknown === undefined) return;
  const known = nodes.map(({ name }) => name).join(', ');
  throw new CoveyError(
    'node_not_found',
    `There is no machine "${unknown.ref}"${known === '' ? ': none has joined yet' : `. There are: ${known}`}.`,
    { field: unknown.field },
  );
}

async function checkModel({ api }: CommandContext, spec: JobSpec): Promise<void> {
  if (spec.kind !== 'inference') return;
  const served = await api.call('deployments').then(
    ({ deployments }) => deployments.map(({ model }) => model),
    () => null,
  );
  if (served === null || served.includes(spec.model)) return;
  const known = served.length > 0 ? ` There are: ${served.join(', ')}.` : ' Nothing is loaded.';
  throw new CoveyError('model_not_found', `No model is served as "${spec.model}".${known}`, {
    field: 'model',
  });
}

/**
 * An artifact that is not there may have been meant as a file: the error says so. Any other error as it is.
 * @param ref where the error does not name the field
 */
export function namingFile(error: unknown, spec: JobSpec, base: string, ref?: string): unknown {
  if (!(error instanceof CoveyError) || error.code !== 'artifact_not_found') return error;
  const wrong = referencesOf(spec).find((one) =>
    ref === undefined ? one.field === error.details.field : one.ref === ref,
  );
  if (wrong === undefined || isPath(wrong.ref)) return error;
  const why = existsSync(resolve(base, wrong.ref))
    ? `is no artifact; the file here is named "./${wrong.ref}"`
    : 'is neither a file here nor an artifact';
  return new CoveyError(error.code, `${wrong.field}: "${wrong.ref}" ${why}.`, { field: wrong.field }, error);
}

/**
 * Keeps no longer what was put for a job that never came to be, where nobody has come to use it meanwhile. Never fails:
 * it would go by hand too.
 */
export async function letGo({ api, io }: CommandContext, put: readonly ArtifactView[]): Promise<void> {
  let count = 0;
  for (const { id, lastUsedAt } of put) {
    const params = { artifact: id };
    try {
      const now = await api.call('artifact', { params, timeoutMs: letGoMs });
      if (now.jobs.length > 0 || now.lastUsedAt > lastUsedAt) continue;
      await api.call('removeArtifact', { params, timeoutMs: letGoMs });
      count += 1;
    } catch (error) {
      // The refusal is what people have to read; where nobody answers, nobody does for the next one either.
      if (error instanceof CoveyError && ['controller_unreachable', 'timeout'].includes(error.code)) break;
    }
  }
  if (count > 0) io.err(`What was put for it is not kept.\n`);
}

const letGoMs = 10_000;
