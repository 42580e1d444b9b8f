import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { JobResult } from '#shared/domain/job.ts';
import type { Work } from '#shared/domain/task.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { JobDefinition, JobRecord } from '../state/job-state.ts';

/** What a job has to do with artifacts. What else is kept for it are partial results. */
export interface JobArtifacts {
  readonly name: string;
  isInput(id: ArtifactId): boolean;
  /** As in its result; undefined: it is none of them. */
  resultName(id: ArtifactId): string | undefined;
}

/** Asked for thousands of artifacts of one job, one after the other. Records are replaced, never changed. */
const results = new WeakMap<JobResult, ReadonlyMap<ArtifactId, string>>();
const inputs = new WeakMap<JobDefinition, ReadonlySet<ArtifactId>>();

export function jobArtifacts({ definition, course }: Pick<JobRecord, 'definition' | 'course'>): JobArtifacts {
  const { result } = course;
  return {
    name: definition.name,
    isInput: (id) =>
      kept(inputs, definition, () => new Set(inputsOf(definition.work).map((stake) => stake.id))).has(id),
    resultName: (id) =>
      result === null ? undefined : kept(results, result, () => namesOf(result.artifacts)).get(id),
  };
}

/** What each machine that works on it has to have. */
export function inputsOf(work: Work): ArtifactStake[] {
  if (work.kind === 'kernel') return work.second === null ? [work.input] : [work.input, work.second];
  return [
    ...('program' in work ? work.program.inputs.map(({ artifact }) => artifact) : []),
    ...('dataset' in work ? [work.dataset.artifact] : []),
  ];
}

/** Of several with the same content, the first one's. */
function namesOf(artifacts: JobResult['artifacts']): Map<ArtifactId, string> {
  return new Map(artifacts.map(({ id, name }) => [id, name] as const).reverse());
}

function kept<Key extends object, Value>(map: WeakMap<Key, Value>, key: Key, make: () => Value): Value {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}
