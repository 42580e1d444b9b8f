import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { Dataset, JobSpec } from '#shared/domain/job-spec.ts';
import { elementBytes } from '#shared/domain/kernel-call.ts';
import { CoveyError } from '#shared/errors.ts';

export type JobUnit = 'elements' | 'records' | 'items' | 'ranks';

/** How the input of a job can be divided, and what becomes of the partitions' results. */
export interface Division {
  readonly unit: JobUnit;
  /** null: a task has to read the dataset first. */
  readonly total: number | null;
  /**
   * `auto`: ranges are cut off as machines can take them. A number: so many from the start, equal ranges where the
   * unit has ranges (elements, records), one item each else.
   */
  readonly partitions: 'auto' | number;
  /** `reduce`: one value. `concatenate`: one file, in the order of the input. `collect`: all of them, by partition. */
  readonly combine: 'reduce' | 'concatenate' | 'collect';
  /** A second copy of a slow partition does no harm: it only reads its input. */
  readonly speculative: boolean;
  /** What people should know. */
  readonly notes: readonly string[];
}

/** The artifacts that a specification names, by their field, resolved. */
export interface ResolvedInputs {
  readonly input: ArtifactStake | null;
  readonly second: ArtifactStake | null;
  readonly dataset: ArtifactStake | null;
}

/**
 * The division of a job, pure.
 * @throws CoveyError `dataset_invalid` naming the field, when an artifact cannot be what the job says it is
 */
export function divide(spec: JobSpec, inputs: ResolvedInputs): Division {
  switch (spec.kind) {
    case 'kernel': {
      const input = file(inputs.input, 'input');
      const elements = wholeNumber(input.bytes, elementBytes[spec.type], 'input', `${spec.type} elements`);
      if (spec.second !== undefined && file(inputs.second, 'second').bytes !== input.bytes) {
        throw new CoveyError('dataset_invalid', 'second: both vectors must have the same length.', {
          field: 'second',
        });
      }
      return ranges(spec, 'elements', elements, 'reduce', true);
    }
    case 'map':
      return ranges(spec, 'records', recordsOf(spec.dataset, inputs.dataset), 'concatenate', false);
    case 'inference':
      return ranges(spec, 'records', recordsOf(spec.dataset, inputs.dataset), 'concatenate', true);
    case 'command':
      return {
        unit: 'items',
        total: spec.partitions,
        partitions: spec.partitions,
        combine: 'collect',
        speculative: spec.speculative ?? false,
        notes:
          spec.partitions === 1
            ? ['A command runs as one partition on one machine; `partitions` runs it several times.']
            : [],
      };
    case 'gang':
      return {
        unit: 'ranks',
        total: spec.ranks,
        partitions: spec.ranks,
        combine: 'collect',
        speculative: false,
        notes: [],
      };
  }
}

function ranges(
  spec: Extract<JobSpec, { partitions: 'auto' | number }>,
  unit: JobUnit,
  total: number | null,
  combine: Division['combine'],
  readsOnly: boolean,
): Division {
  const { partitions } = spec;
  const fewer = partitions !== 'auto' && total !== null && total > 0 && partitions > total;
  return {
    unit,
    total,
    // An empty input is one empty partition: what comes of nothing is for the kind to say.
    partitions: total === 0 ? 1 : fewer ? total : partitions,
    combine,
    speculative: spec.speculative ?? readsOnly,
    notes: fewer ? [`There are only ${total} ${unit}: it runs as ${total} partitions.`] : [],
  };
}

/** Records of a fixed size are counted by arithmetic; all others have to be read. */
function recordsOf({ format, recordBytes }: Dataset, artifact: ArtifactStake | null): number | null {
  const { bytes } = file(artifact, 'dataset.artifact');
  if (format !== 'binary' || recordBytes === undefined) return bytes === 0 ? 0 : null;
  return wholeNumber(bytes, recordBytes, 'dataset.recordBytes', `records of ${recordBytes} bytes`);
}

function file(stake: ArtifactStake | null, field: string): ArtifactStake {
  if (stake?.kind === 'file') return stake;
  throw new CoveyError('dataset_invalid', `${field}: must be a file, not a folder.`, { field });
}

function wholeNumber(bytes: number, size: number, field: string, what: string): number {
  if (bytes % size === 0) return bytes / size;
  const message = `${field}: ${bytes} bytes are no whole number of ${what}.`;
  throw new CoveyError('dataset_invalid', message, { field });
}
