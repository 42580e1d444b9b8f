import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { JobSpec, JobSpecOf } from '#shared/domain/job-spec.ts';
import type { DatasetWork, Program, Work } from '#shared/domain/task.ts';
import type { ResolvedInputs } from './division.ts';

type ProgramSpec = JobSpecOf<'command'> | JobSpecOf<'map'> | JobSpecOf<'gang'>;

export interface ResolvedWork extends ResolvedInputs {
  /** Of `inputs`, in their order. */
  readonly inputs: readonly ArtifactStake[];
}

/** What workers get: the specification with artifacts in place of their names. */
export function workOf(spec: JobSpec, resolved: ResolvedWork): Work {
  switch (spec.kind) {
    case 'kernel': {
      const { kernel, type, bins, low, high } = spec;
      return {
        kind: 'kernel',
        call: { kernel, type, bins, low, high },
        input: there(resolved.input),
        second: resolved.second,
      };
    }
    case 'command':
      return { kind: 'command', program: programOf(spec, resolved), outputs: [...spec.outputs] };
    case 'map':
      return {
        kind: 'map',
        program: programOf(spec, resolved),
        dataset: datasetOf(spec, resolved),
        per: spec.per,
      };
    case 'inference':
      return {
        kind: 'inference',
        model: spec.model,
        task: spec.task,
        dataset: datasetOf(spec, resolved),
        prompt: spec.prompt ?? null,
        system: spec.system ?? null,
        parameters: spec.parameters,
        concurrency: spec.concurrency,
      };
    case 'gang':
      return {
        kind: 'gang',
        program: programOf(spec, resolved),
        outputs: [...spec.outputs],
        ports: spec.ports,
      };
  }
}

/** The task that counts the records first; null: there are none, or their number is known. */
export function indexWork(spec: JobSpec, resolved: ResolvedWork, total: number | null): IndexWork | null {
  if (total !== null || !('dataset' in spec)) return null;
  return { kind: 'index', dataset: datasetOf(spec, resolved) };
}
type IndexWork = Extract<Work, { kind: 'index' }>;

function programOf(spec: ProgramSpec, { inputs }: ResolvedWork): Program {
  return {
    command: spec.command ?? null,
    script: spec.script ?? null,
    interpreter: spec.interpreter,
    env: spec.env,
    secrets: spec.secrets,
    inputs: spec.inputs.map(({ path }, index) => ({ artifact: there(inputs[index] ?? null), path })),
    limits: spec.limits,
    network: spec.network,
    cpus: spec.requires.cpus,
  };
}

function datasetOf(
  { dataset }: JobSpecOf<'map'> | JobSpecOf<'inference'>,
  resolved: ResolvedWork,
): DatasetWork {
  return {
    artifact: there(resolved.dataset),
    format: dataset.format,
    recordBytes: dataset.recordBytes ?? null,
    header: dataset.header,
  };
}

function there(stake: ArtifactStake | null): ArtifactStake {
  if (stake === null) throw new Error('an artifact of the job was not resolved');
  return stake;
}

const hidden = '(not shown)';

/** The specification for people: without the values of its secrets. */
export function withoutSecrets(spec: JobSpec): JobSpec {
  if (!('secrets' in spec)) return spec;
  const secrets = Object.fromEntries(Object.keys(spec.secrets).map((name) => [name, hidden]));
  return { ...spec, secrets };
}
