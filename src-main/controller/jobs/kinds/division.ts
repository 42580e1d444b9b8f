import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { Dataset, JobSpec } from '#shared/domain/job-spec.ts';
import { elementBytes } from '#shared/domain/kernel-call.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Division, JobDefinition } from '../../state/job-state.ts';

/** How the input of a job can be divided, and what becomes of the partitions' results. */
export interface Divided {
  readonly unit: JobDefinition['unit'];
  /** null: a task has to read the dataset first. */
  readonly total: number | null;
  readonly division: Division;
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

/** Bytes of a kernel's smallest and largest partition: less is not worth a message, more not worth losing. */
const kernelBytes = { smallest: 1024 * 1024, largest: 512 * 1024 * 1024 };
const mostRecords = 1_000_000;

/**
 * The division of a job, pure.
 * @throws CoveyError `dataset_invalid` naming the field, when an artifact cannot be what the job says it is
 */
export function divide(spec: JobSpec, inputs: ResolvedInputs): Divided {
  switch (spec.kind) {
    case 'kernel': {
      const input = file(inputs.input, 'input');
      const size = elementBytes[spec.type];
      const elements = wholeNumber(input.bytes, size, 'input', `${spec.type} elements`);
      if (spec.second !== undefined && file(inputs.second, 'second').bytes !== input.bytes) {
        throw new CoveyError('dataset_invalid', 'second: both vectors must have the same length.', {
          field: 'second',
        });
      }
      return ranges(spec, 'elements', elements, true, {
        smallest: kernelBytes.smallest / size,
        largest: kernelBytes.largest / size,
      });
    }
    case 'map': {
      const total = recordsOf(spec.dataset, inputs.dataset);
      return ranges(spec, 'records', total, false, { smallest: 1, largest: mostRecords });
    }
    case 'inference': {
      const total = recordsOf(spec.dataset, inputs.dataset);
      // Fewer would leave some of its requests at once unused.
      const smallest = spec.concurrency;
      return ranges(spec, 'records', total, true, { smallest, largest: mostRecords });
    }
    case 'command':
      return {
        unit: 'items',
        total: spec.partitions,
        division: { mode: 'counted', count: spec.partitions, ranged: false },
        speculative: spec.speculative ?? false,
        notes:
          spec.partitions === 1
            ? ['It cannot be divided: a command runs as one partition unless `partitions` says how often.']
            : [],
      };
    case 'gang':
      return {
        unit: 'ranks',
        total: spec.ranks,
        division: { mode: 'counted', count: spec.ranks, ranged: false },
        speculative: false,
        notes: [],
      };
  }
}

function ranges(
  spec: Extract<JobSpec, { kind: 'kernel' | 'map' | 'inference' }>,
  unit: JobDefinition['unit'],
  total: number | null,
  readsOnly: boolean,
  sizes: { readonly smallest: number; readonly largest: number },
): Divided {
  const { partitions } = spec;
  const fewer = partitions !== 'auto' && total !== null && partitions > total;
  return {
    unit,
    total,
    division:
      partitions === 'auto'
        ? { mode: 'auto', ...sizes }
        : { mode: 'counted', count: fewer ? Math.max(1, total) : partitions, ranged: true },
    speculative: spec.speculative ?? readsOnly,
    notes: fewer ? [`There are only ${total} ${unit}: it runs as that many partitions.`] : [],
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
