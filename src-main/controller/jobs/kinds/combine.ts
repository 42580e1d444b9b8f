import { z } from 'zod';
import { combineKernel, readPartial, type KernelPartial } from '#shared/domain/kernel-results.ts';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { JobResult } from '#shared/domain/job.ts';
import type { TaskResult, Work } from '#shared/domain/task.ts';
import { CoveyError } from '#shared/errors.ts';
import type { JobDefinition } from '../../state/job-state.ts';

/** The accepted result of one partition. */
export interface PartitionResult {
  readonly index: number;
  readonly result: TaskResult;
}

/** What is left to do for a job's result, once all its partitions have ended. */
export type Combination =
  | { readonly how: 'given'; readonly result: JobResult }
  /** One file of these, in this order; it is the job's only artifact. */
  | {
      readonly how: 'concatenate';
      readonly parts: readonly ArtifactStake[];
      readonly name: string;
      /** Of `JobResult`. */
      readonly refused: number;
    };

/**
 * The combination of a job's partial results, pure.
 * @param results of the partitions that have one, in the order of their input
 * @param missing partitions without one
 * @throws CoveyError `task_failed` when a partial result is not one of this job
 */
export function combine(
  definition: JobDefinition,
  results: Iterable<PartitionResult>,
  missing: number,
): Combination {
  const { work } = definition;
  switch (work.kind) {
    case 'kernel':
      return { how: 'given', result: { value: reduce(work, results), artifacts: [], missing } };
    case 'map':
    case 'inference': {
      const all = [...results];
      const parts = all.flatMap(({ result }) => result.artifacts);
      const refused = all.reduce((sum, { result }) => sum + refusedIn(result.value), 0);
      const extension = work.kind === 'inference' ? 'jsonl' : 'out';
      return { how: 'concatenate', parts, name: `${definition.name}.${extension}`, refused };
    }
    case 'command':
    case 'gang':
      return { how: 'given', result: { value: null, artifacts: collect(definition, results), missing } };
    case 'index':
      throw new Error('an index is no job of its own');
  }
}

const refusedSchema = z.object({ refused: z.number().int().positive() });

function refusedIn(value: TaskResult['value']): number {
  return refusedSchema.safeParse(value).data?.refused ?? 0;
}

function reduce(
  work: Extract<Work, { kind: 'kernel' }>,
  results: Iterable<PartitionResult>,
): JobResult['value'] {
  const value = combineKernel(work.call, partialsOf(work, results));
  return typeof value === 'object' && value !== null ? { ...value, counts: [...value.counts] } : value;
}

function* partialsOf(
  work: Extract<Work, { kind: 'kernel' }>,
  results: Iterable<PartitionResult>,
): Iterable<KernelPartial> {
  for (const { index, result } of results) {
    const partial = readPartial(work.call, result.value);
    if (!partial.ok) throw new CoveyError('task_failed', `Partition ${index}: ${partial.error}.`);
    yield partial.value;
  }
}

/** `<output>` where there is one partition, else `<index>/<output>`. */
function collect(definition: JobDefinition, results: Iterable<PartitionResult>): JobResult['artifacts'] {
  const single = definition.division.mode === 'counted' && definition.division.count === 1;
  return [...results].flatMap(({ index, result }) =>
    result.artifacts.map((artifact) => ({
      ...artifact,
      name: single ? artifact.name : `${index}/${artifact.name}`,
    })),
  );
}
