import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { JobSpec } from '#shared/domain/job-spec.ts';
import { UsageError } from './failure.ts';

/** Puts a file or folder of this machine into the covey; resolves to the artifact's id. */
export type PutPath = (path: string) => Promise<string>;

/** Whether a reference to an artifact means a file here: `./x`, `../x`, `/x`, `C:\x`. */
export function isPath(ref: string): boolean {
  return /^(?:\.{1,2}$|\.{1,2}[/\\]|[/\\]|[a-z]:[/\\])/i.test(ref);
}

/**
 * The specification with files of this machine replaced by the artifacts that they become. Each is put once.
 * @param base the directory that relative paths start from
 * @throws UsageError naming the field, before anything is put, for one that is not there
 */
export async function putFilesOf(spec: JobSpec, base: string, put: PutPath): Promise<JobSpec> {
  const places = referencesOf(spec).filter(({ ref }) => isPath(ref));
  for (const { field, ref } of places) {
    if (!existsSync(resolve(base, ref))) throw new UsageError(`${field}: there is no ${resolve(base, ref)}.`);
  }
  const ids = new Map<string, string>();
  for (const { ref } of places) {
    const path = resolve(base, ref);
    if (!ids.has(path)) ids.set(path, await put(path));
  }
  return mapReferences(spec, (ref) => (isPath(ref) ? (ids.get(resolve(base, ref)) ?? ref) : ref));
}

/** The artifacts and files that it names, by field. */
export function referencesOf(spec: JobSpec): { readonly field: string; readonly ref: string }[] {
  const found: { field: string; ref: string }[] = [];
  if (spec.kind === 'kernel') {
    found.push({ field: 'input', ref: spec.input });
    if (spec.second !== undefined) found.push({ field: 'second', ref: spec.second });
  }
  if ('dataset' in spec) found.push({ field: 'dataset.artifact', ref: spec.dataset.artifact });
  if ('inputs' in spec) {
    spec.inputs.forEach(({ artifact }, index) =>
      found.push({ field: `inputs.${index}.artifact`, ref: artifact }),
    );
  }
  return found;
}

function mapReferences(spec: JobSpec, map: (ref: string) => string): JobSpec {
  const copy = structuredClone(spec);
  if (copy.kind === 'kernel') {
    copy.input = map(copy.input);
    if (copy.second !== undefined) copy.second = map(copy.second);
  }
  if ('dataset' in copy) copy.dataset.artifact = map(copy.dataset.artifact);
  if ('inputs' in copy) for (const input of copy.inputs) input.artifact = map(input.artifact);
  return copy;
}
