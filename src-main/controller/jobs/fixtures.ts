import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { TaskReport, TaskResult, TaskUsage } from '#shared/domain/task.ts';
import { taskId, type ArtifactId, type JobId, type NodeId, type TaskId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Artifacts } from '../artifacts/artifacts.ts';
import type { Assignment } from '../state/job-events.ts';
import type { JobStore } from '../state/sqlite/job-store.ts';

/** For tests: artifacts by name, and what became of them. */
export interface ScriptedArtifacts extends Artifacts {
  readonly stakes: Map<string, ArtifactStake>;
  readonly references: Map<JobId, Set<ArtifactId>>;
  /** Names of what was fetched, in order. */
  readonly fetched: string[];
  /** What the next fetches do. */
  onFetch: (name: string) => Promise<void>;
}

export function stakeOf(digit: string, bytes: number, kind: 'file' | 'tree' = 'file'): ArtifactStake {
  return { id: digit.repeat(64) as ArtifactId, kind, bytes };
}

export function scriptedArtifacts(stakes: Readonly<Record<string, ArtifactStake>> = {}): ScriptedArtifacts {
  const unused = (): never => {
    throw new Error('not in this test');
  };
  const artifacts: ScriptedArtifacts = {
    stakes: new Map(Object.entries(stakes)),
    references: new Map(),
    fetched: [],
    onFetch: () => Promise.resolve(),
    resolve(ref) {
      const stake = artifacts.stakes.get(ref);
      if (stake) return stake;
      throw new CoveyError('artifact_not_found', `There is no artifact "${ref}".`);
    },
    view: unused,
    addReference(jobId, ids) {
      const known = artifacts.references.get(jobId) ?? new Set();
      for (const id of ids) known.add(id);
      artifacts.references.set(jobId, known);
    },
    dropReferences: (jobId) => void artifacts.references.delete(jobId),
    async fetch(_stake, name) {
      await artifacts.onFetch(name);
      artifacts.fetched.push(name);
    },
    concatenate: (ids) =>
      Promise.resolve({ id: 'f'.repeat(64) as ArtifactId, kind: 'file', bytes: ids.length }),
    readValue: unused,
    addBytes: unused,
    holders: () => [],
  };
  return artifacts;
}

export interface ScriptedResults extends Pick<JobStore, 'result' | 'output'> {
  put(jobId: JobId, index: number, result: TaskResult): void;
  readonly outputs: Map<TaskId, string>;
}

export function scriptedResults(): ScriptedResults {
  const results = new Map<string, TaskResult>();
  const outputs = new Map<TaskId, string>();
  return {
    outputs,
    put: (jobId, index, result) => void results.set(`${jobId}.${index}`, result),
    result: (jobId, index) => results.get(`${jobId}.${index}`) ?? null,
    output: (id) => outputs.get(id) ?? null,
  };
}

export const usage: TaskUsage = { wallMs: 2_000, cpuMs: 1_500, peakBytes: 1_000_000, stagingMs: 0 };

/** The first attempt at a partition. */
export function assigned(
  jobId: JobId,
  index: number,
  nodeId: NodeId,
  range: Assignment['range'] = null,
): Assignment {
  return {
    ...{ jobId, index, nodeId, range, epoch: 1, attempt: 1, owner: null, speculative: false },
    taskId: taskId(jobId, index, 1),
  };
}

export function doneReport(
  jobId: JobId,
  index: number,
  result: TaskResult,
): Extract<TaskReport, { type: 'done' }> {
  return { type: 'done', taskId: taskId(jobId, index, 1), epoch: 1, result, usage, output: '' };
}
