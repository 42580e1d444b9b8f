import { z } from 'zod';
import { combinePartials, emptyPartial, kernelValue, readPartial } from '#shared/domain/kernel-results.ts';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { JobResult } from '#shared/domain/job.ts';
import type { TaskResult, Work } from '#shared/domain/task.ts';
import { CoveyError } from '#shared/errors.ts';
import type { JobDefinition } from '../../state/job-state.ts';

/** The accepted result of one partition. */
export interface PartitionResult {
  readonly index: number;
  /** Of its range, in units of the input; null where the input has none. */
  readonly units: number | null;
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

/** Partial results as they are read: thousands of histograms need no more room than two. */
export type PartitionResults = AsyncIterable<PartitionResult> | Iterable<PartitionResult>;

/**
 * The combination of a job's partial results; nothing happens elsewhere.
 * @param results of the partitions that have one, in the order of their input
 * @param missing partitions without one
 * @throws CoveyError `task_failed` when a partial result is not one of this job
 */
export async function combine(
  definition: JobDefinition,
  results: PartitionResults,
  missing: number,
): Promise<Combination> {
  const { work } = definition;
  switch (work.kind) {
    case 'kernel':
      return { how: 'given', result: { value: await reduce(work, results), artifacts: [], missing } };
    case 'map':
    case 'inference': {
      const parts: ArtifactStake[] = [];
      let refused = 0;
      for await (const { result } of results) {
        parts.push(...result.artifacts);
        refused += refusedIn(result.value);
      }
      // No partition has a result: a file of nothing would look like one.
      if (parts.length === 0 && missing > 0)
        return { how: 'given', result: { value: null, artifacts: [], missing } };
      const extension = work.kind === 'inference' ? 'jsonl' : 'out';
      return { how: 'concatenate', parts, name: `${definition.name}.${extension}`, refused };
    }
    case 'command':
    case 'gang':
      return {
        how: 'given',
        result: { value: null, artifacts: await collect(definition, results), missing },
      };
    case 'index':
      throw new Error('an index is no job of its own');
  }
}

const refusedSchema = z.object({ refused: z.number().int().positive() });

function refusedIn(value: TaskResult['value']): number {
  return refusedSchema.safeParse(value).data?.refused ?? 0;
}

async function reduce(
  work: Extract<Work, { kind: 'kernel' }>,
  results: PartitionResults,
): Promise<JobResult['value']> {
  let total = emptyPartial(work.call);
  for await (const { index, units, result } of results) {
    const partial = readPartial(work.call, result.value);
    if (!partial.ok) throw new CoveyError('task_failed', `Partition ${index}: ${partial.error}.`);
    const { elements } = partial.value;
    if (units !== null && elements !== units) {
      const message = `Partition ${index}: its result is of ${elements} elements, its range has ${units}.`;
      throw new CoveyError('task_failed', message);
    }
    total = combinePartials(total, partial.value);
  }
  const value = kernelValue(work.call, total);
  return typeof value === 'object' && value !== null ? { ...value, counts: [...value.counts] } : value;
}

/** `<output>` where there is one partition, else `<index>/<output>`. */
async function collect(
  definition: JobDefinition,
  results: PartitionResults,
): Promise<JobResult['artifacts']> {
  const single = definition.division.mode === 'counted' && definition.division.count === 1;
  const artifacts: Array<JobResult['artifacts'][number]> = [];
  for await (const { index, result } of results) {
    for (const artifact of result.artifacts) {
      artifacts.push({ ...artifact, name: single ? artifact.name : `${index}/${artifact.name}` });
    }
  }
  return artifacts;
}
