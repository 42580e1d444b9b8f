import { randomBytes } from 'node:crypto';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { checkJobSpec } from '#shared/domain/job-rules.ts';
import type { Distribution, JobSpec } from '#shared/domain/job-spec.ts';
import type { ArtifactId, JobId, NodeId } from '#shared/lib/ids.ts';
import type { Clock } from '#shared/lib/clock.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Artifacts } from '../artifacts/artifacts.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { findNode } from '../service/node-refs.ts';
import type { Division, JobDefinition, NodeDistribution, Place } from '../state/job-state.ts';
import type { ControllerState } from '../state/state.ts';
import { isUnfinished } from './job-refs.ts';
import { divide } from './kinds/division.ts';
import { indexWork, withoutSecrets, workOf, type ResolvedWork } from './kinds/work.ts';

export interface SubmitContext {
  readonly runtime: Pick<Runtime, 'state' | 'commit'>;
  readonly clock: Clock;
  readonly artifacts: Pick<Artifacts, 'resolve' | 'addReference' | 'dropReferences'>;
  /** Names under which models are served, ready or not. */
  readonly models: () => readonly string[];
}

/** It goes to workers in frames of at most 1 MiB, together with their tasks. */
const workLimitBytes = 512 * 1024;
const mostUnfinished = 1_000;
/** Of all unfinished jobs together: records of partitions are kept in memory, half a kilobyte each. */
const mostUnfinishedPartitions = 500_000;

/**
 * Accepts a job, or refuses it with nothing left behind:
 * 0. a submission that has been accepted already, by its key, is that job again;
 * 1. fields are held against one another (`checkJobSpec`);
 * 2. names become nodes and artifacts;
 * 3. the input is divided as far as its size says, the work for the machines is built;
 * 4. its artifacts are kept for it, then it is recorded.
 * @param key of this submission, for clients that may ask twice: they do not know whether an answer that they never
 *   got was a yes; null: it is asked for once
 * @throws CoveyError naming the field
 */
export function submitJob(context: SubmitContext, spec: JobSpec, key: string | null = null): JobId {
  const { runtime, clock, artifacts } = context;
  const { state } = runtime;
  // 0.
  const before = key === null ? null : submittedAs(state, key, spec);
  if (before !== null) return before;
  // 1.
  const problems = checkJobSpec(spec);
  const [first] = problems;
  if (first) {
    const reasons = problems.slice(0, 16).map((problem) => ({ code: 'job_invalid', ...problem }));
    throw new CoveyError('job_invalid', `${first.field}: ${first.message}.`, { field: first.field, reasons });
  }
  if ([...state.jobs.values()].filter(isUnfinished).length >= mostUnfinished) {
    throw new CoveyError(
      'too_many_requests',
      `${mostUnfinished} jobs are unfinished: wait for some of them.`,
    );
  }
  if (spec.kind === 'inference') checkModel(spec.model, context.models());
  // 2.
  const place = placeOf(state, spec);
  const distribution = resolveDistribution(state, spec.distribution, 'distribution.');
  checkShares(distribution, place, 'distribution.');
  const resolved = resolveArtifacts(artifacts, spec);
  // 3.
  const divided = divide(spec, resolved);
  checkRoom(state, divided.division);
  const work = workOf(spec, resolved);
  if (Buffer.byteLength(JSON.stringify(work)) > workLimitBytes) {
    throw new CoveyError(
      'job_too_large',
      'Command, script, environment and secrets together may have 512 KiB: put large ones into an input.',
    );
  }
  const at = clock.now();
  const definition: JobDefinition = {
    id: newJobId(state),
    ...(key === null ? {} : { submissionKey: key }),
    name: spec.name ?? defaultName(spec),
    kind: spec.kind,
    spec: withoutSecrets(spec),
    work,
    index: indexWork(spec, resolved, divided.total),
    total: divided.total,
    unit: divided.unit,
    division: divided.division,
    demand: {
      cpus: spec.requires.cpus,
      memoryBytes: spec.requires.memoryBytes,
      wholeNode: spec.kind === 'kernel',
    },
    place,
    retry: {
      attempts: spec.retry.attempts,
      backoffMs: spec.retry.backoffMs,
      exitCodes: spec.retry.exitCodes ?? null,
    },
    timeoutMs: spec.timeoutMs,
    exclusive: spec.exclusive,
    speculative: divided.speculative && !spec.exclusive,
    priority: spec.priority,
    gang: spec.kind === 'gang' ? { perNode: spec.perNode ?? null, restarts: spec.restarts } : null,
    notes: divided.notes,
    createdAt: at,
  };
  // 4. Referenced first: between the two nothing may collect them.
  artifacts.addReference(definition.id, idsOf(resolved));
  try {
    runtime.commit({ type: 'job-submitted', at, definition, distribution });
  } catch (error) {
    artifacts.dropReferences(definition.id);
    throw error;
  }
  return definition.id;
}

function submittedAs({ jobs }: ControllerState, key: string, spec: JobSpec): JobId | null {
  const job = [...jobs.values()].find(({ definition }) => definition.submissionKey === key);
  if (job === undefined) return null;
  const { id, spec: first } = job.definition;
  if (JSON.stringify(first) === JSON.stringify(withoutSecrets(spec))) return id;
  throw new CoveyError('job_invalid', `Idempotency-Key: ${id} was submitted with it, and is another job.`, {
    field: 'Idempotency-Key',
  });
}

function checkRoom({ jobs }: ControllerState, division: Division): void {
  let others = 0;
  for (const job of jobs.values()) {
    if (isUnfinished(job)) others += Math.max(job.partitions.length, partitionsOf(job.definition.division));
  }
  if (others + partitionsOf(division) <= mostUnfinishedPartitions) return;
  throw new CoveyError(
    'too_many_requests',
    `partitions: the unfinished jobs have ${others}, and ${mostUnfinishedPartitions} may be unfinished together: ` +
      'divide this one less, or wait for some of them.',
    { field: 'partitions' },
  );
}

function partitionsOf(division: Division): number {
  return division.mode === 'counted' ? division.count : 0;
}

function checkModel(model: string, served: readonly string[]): void {
  if (served.includes(model)) return;
  const known = served.length > 0 ? ` There are: ${served.join(', ')}.` : ' Nothing is loaded.';
  throw new CoveyError('model_not_found', `No model is served as "${model}".${known}`, { field: 'model' });
}

function placeOf(state: ControllerState, spec: JobSpec): Place {
  const { nodes, os, arch } = spec.requires;
  const program = spec.kind === 'command' || spec.kind === 'map' || spec.kind === 'gang';
  return {
    nodes: nodes
      ? distinct(
          nodes.map((ref, index) => nodeOf(state, ref, `requires.nodes.${index}`)),
          'requires.nodes',
        )
      : null,
    os: os ?? null,
    arch: arch ?? null,
    kernel: spec.kind === 'kernel' ? spec.kernel : null,
    commands: program,
    network: program && spec.network === 'lan',
  };
}

/**
 * @param within what comes before its fields in what was asked, as `distribution.`
 * @throws CoveyError `node_not_found`, `node_ambiguous`, `job_invalid` for a machine that is named twice
 */
export function resolveDistribution(
  state: ControllerState,
  distribution: Distribution,
  within: string,
): NodeDistribution {
  if (distribution.mode === 'auto') return { mode: 'auto' };
  const shares = distribution.shares.map(({ node, percent }, index) => ({
    nodeId: nodeOf(state, node, `${within}shares.${index}.node`),
    weight: percent,
  }));
  distinct(
    shares.map(({ nodeId }) => nodeId),
    `${within}shares`,
  );
  return { mode: 'manual', shares };
}

/** @throws CoveyError `job_invalid` for a share of a machine where the job may not run */
export function checkShares(distribution: NodeDistribution, { nodes }: Place, within: string): void {
  if (distribution.mode === 'auto' || nodes === null) return;
  const wrong = distribution.shares.findIndex(({ nodeId }) => !nodes.includes(nodeId));
  if (wrong === -1) return;
  const field = `${within}shares.${wrong}.node`;
  throw new CoveyError('job_invalid', `${field}: is a machine that \`requires.nodes\` leaves out.`, {
    field,
  });
}

function nodeOf(state: ControllerState, ref: string, field: string): NodeId {
  return findNode(state, ref, field).durable.id;
}

/** Two names may be one machine. */
function distinct(ids: NodeId[], field: string): NodeId[] {
  if (new Set(ids).size === ids.length) return ids;
  throw new CoveyError('job_invalid', `${field}: names a machine twice.`, { field });
}

function resolveArtifacts(artifacts: Pick<Artifacts, 'resolve'>, spec: JobSpec): ResolvedWork {
  const resolve = (ref: string | undefined, field: string): ArtifactStake | null => {
    if (ref === undefined) return null;
    try {
      return artifacts.resolve(ref);
    } catch (error) {
      if (!(error instanceof CoveyError)) throw error;
      throw new CoveyError(error.code, `${field}: ${error.message}`, { ...error.details, field });
    }
  };
  return {
    input: resolve(spec.kind === 'kernel' ? spec.input : undefined, 'input'),
    second: resolve(spec.kind === 'kernel' ? spec.second : undefined, 'second'),
    dataset: resolve('dataset' in spec ? spec.dataset.artifact : undefined, 'dataset.artifact'),
    inputs: ('inputs' in spec ? spec.inputs : []).flatMap(
      ({ artifact }, index) => resolve(artifact, `inputs.${index}.artifact`) ?? [],
    ),
  };
}

function idsOf({ input, second, dataset, inputs }: ResolvedWork): ArtifactId[] {
  const stakes = [input, second, dataset, ...inputs].filter((stake) => stake !== null);
  return [...new Set(stakes.map(({ id }) => id))];
}

function defaultName(spec: JobSpec): string {
  switch (spec.kind) {
    case 'kernel':
      return `${spec.kernel} ${shortRef(spec.input)}`;
    case 'inference':
      return `${spec.model} ${shortRef(spec.dataset.artifact)}`.slice(0, 128);
    case 'command':
    case 'map':
    case 'gang': {
      const program = spec.command?.[0]?.split(/[/\\]/).at(-1)?.replace(/\p{C}/gu, '').slice(0, 100);
      return program || spec.kind;
    }
  }
}

/** An id is long; a name is what people know. */
function shortRef(ref: string): string {
  return /^[0-9a-f]{16,}$/.test(ref) ? ref.slice(0, 12) : ref.replace(/\p{C}/gu, '').slice(0, 100);
}

function newJobId(state: ControllerState): JobId {
  for (;;) {
    const id = `j-${BigInt(`0x${randomBytes(8).toString('hex')}`)
      .toString(36)
      .padStart(13, '0')
      .slice(-8)}` as JobId;
    if (!state.jobs.has(id)) return id;
  }
}
