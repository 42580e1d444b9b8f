import type { z } from 'zod';
import type {
  JobLog,
  JobStats,
  jobListQuerySchema,
  jobLogQuerySchema,
  partitionListQuerySchema,
  taskListQuerySchema,
} from '#shared/api/jobs.ts';
import type { Distribution, JobSpec } from '#shared/domain/job-spec.ts';
import type { JobSummary, JobView, PartitionView, TaskView } from '#shared/domain/job.ts';
import type { JobId, NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { findNode } from '../service/node-refs.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';
import { isLive, partitionAt, partitionCount } from '../state/job-shares.ts';
import { jobStatus, partitionStatus } from '../state/job-selectors.ts';
import type { JobRecord } from '../state/job-state.ts';
import type { JobStore } from '../state/sqlite/job-store.ts';
import { findJob, isUnfinished } from './job-refs.ts';
import { jobStats, jobSummary, jobView, partitionView, taskView } from './job-views.ts';
import { checkShares, resolveDistribution, submitJob, type SubmitContext } from './submit.ts';

export interface JobServiceOptions extends SubmitContext {
  readonly store: Pick<JobStore, 'output'>;
  readonly sessions: Pick<SessionRegistry, 'request'>;
}

type Query<Schema extends z.ZodType> = z.output<Schema>;

/** The operations behind the job routes of `/api`; each throws CoveyError. `ref` is an id or a name. */
export interface JobService {
  /** @param key of this submission (`Idempotency-Key`): with the same one again it is the same job; null: it has none */
  submit(spec: JobSpec, key: string | null): JobView;
  list(query: Query<typeof jobListQuerySchema>): {
    jobs: JobSummary[];
    total: number;
    more: boolean;
  };
  job(ref: string): JobView;
  /** As it was submitted, without the values of secrets. */
  spec(ref: string): JobSpec;
  stats(ref: string): JobStats;
  partitions(
    ref: string,
    query: Query<typeof partitionListQuerySchema>,
  ): { partitions: PartitionView[]; total: number };
  log(ref: string, query: Query<typeof jobLogQuerySchema>, signal: AbortSignal): Promise<JobLog>;
  cancel(ref: string): JobView;
  retry(ref: string): JobView;
  remove(ref: string): void;
  setDistribution(ref: string, distribution: Distribution): JobView;
  tasks(query: Query<typeof taskListQuerySchema>): TaskView[];
}

const logMs = 10_000;

export function createJobService(options: JobServiceOptions): JobService {
  const { runtime, clock, sessions, store } = options;
  const jobOf = (ref: string): JobRecord => findJob(runtime.state, ref);
  const view = (job: JobRecord): JobView => jobView(runtime.state, job, clock.now());
  const again = (id: JobId): JobView => view(jobOf(id));

  return {
    submit: (spec, key) => again(submitJob(options, spec, key)),
    list({ before, from, limit, ...filter }) {
      let jobs = [...runtime.state.jobs.values()].reverse();
      if (before !== undefined) {
        const index = jobs.findIndex(({ definition }) => definition.id === before);
        if (index === -1)
          throw new CoveyError('job_not_found', `There is no job ${before}.`, { field: 'before' });
        jobs = jobs.slice(index + 1);
      }
      jobs = jobs.filter((job) => fits(job, filter));
      const total = jobs.length;
      const page = jobs.slice(from, from + limit).map((job) => jobSummary(job, clock.now()));
      return { jobs: page, total, more: total > from + limit };
    },
    job: (ref) => view(jobOf(ref)),
    spec: (ref) => jobOf(ref).definition.spec,
    stats: (ref) => jobStats(jobOf(ref), clock.now()),
    partitions(ref, { status, from, limit }) {
      const job = jobOf(ref);
      const partitions: PartitionView[] = [];
      const total = partitionCount(job);
      for (let index = from; index < total && partitions.length < limit; index += 1) {
        const partition = partitionAt(job, index);
        if (!partition || (status !== undefined && partitionStatus(job, partition) !== status)) continue;
        partitions.push(partitionView(runtime.state, job, partition));
      }
      return { partitions, total };
    },
    async log(ref, { index, attempt }, signal) {
      const job = jobOf(ref);
      const partition = partitionAt(job, index);
      const task =
        attempt === undefined
          ? partition?.tasks.at(-1)
          : partition?.tasks.find((candidate) => candidate.attempt === attempt);
      if (!task) {
        const { id } = job.definition;
        const what = attempt === undefined ? 'has not been begun' : `has no attempt ${attempt} that is kept`;
        const message = partition
          ? `Partition ${index} of ${id} ${what}.`
          : `There is no partition ${index} of ${id}, which has ${partitionCount(job)}.`;
        throw new CoveyError('task_not_found', message, {
          field: attempt === undefined ? 'index' : 'attempt',
        });
      }
      if (isLive(task)) {
        const log = await sessions.request(
          task.nodeId,
          'task.log',
          { taskId: task.id },
          { deadlineMs: logMs, signal },
        );
        return { taskId: task.id, ...log, running: true };
      }
      const output = store.output(task.id) ?? '';
      return { taskId: task.id, output, truncated: output.length >= keptOutput, running: false };
    },
    cancel(ref) {
      const job = jobOf(ref);
      if (!isUnfinished(job)) throw finished(job, 'cancel');
      if (job.course.ending === null) {
        runtime.commit({ type: 'job-cancel-requested', at: clock.now(), jobId: job.definition.id });
      }
      return again(job.definition.id);
    },
    retry(ref) {
      const job = jobOf(ref);
      const { id } = job.definition;
      if (isUnfinished(job)) {
        throw new CoveyError('job_not_finished', `${id} is ${jobStatus(job)}: it still tries by itself.`, {
          field: 'job',
        });
      }
      if (job.course.phase === 'done') throw finished(job, 'try again');
      runtime.commit({ type: 'job-retry-requested', at: clock.now(), jobId: id });
      return again(id);
    },
    remove(ref) {
      const job = jobOf(ref);
      const { id } = job.definition;
      if (isUnfinished(job)) {
        throw new CoveyError('job_not_finished', `${id} is ${jobStatus(job)}: cancel it first.`, {
          field: 'job',
        });
      }
      runtime.commit({ type: 'job-removed', at: clock.now(), jobId: id, cause: 'person' });
    },
    setDistribution(ref, wanted) {
      const job = jobOf(ref);
      const { definition } = job;
      if (!isUnfinished(job)) throw finished(job, 'share out');
      if (definition.gang !== null) {
        throw new CoveyError('job_invalid', 'mode: a gang runs on as many machines as it needs.', {
          field: 'mode',
        });
      }
      const distribution = resolveDistribution(runtime.state, wanted, '');
      checkShares(distribution, definition.place, '');
      runtime.commit({ type: 'distribution-set', at: clock.now(), jobId: definition.id, distribution });
      return again(definition.id);
    },
    tasks({ job, node, index, outcome, limit }) {
      const { state } = runtime;
      const nodeId = node === undefined ? null : findNode(state, node, 'node').durable.id;
      const jobs = job === undefined ? [...state.jobs.values()].reverse() : [jobOf(job)];
      const found: TaskView[] = [];
      for (const one of jobs) {
        // Of thousands of jobs few have anything that runs.
        if (outcome === 'running' && !isActive(one, nodeId)) continue;
        for (const partition of newestFirst(one, index)) {
          for (const task of partition.tasks.toReversed()) {
            if (nodeId !== null && task.nodeId !== nodeId) continue;
            if (outcome !== undefined && task.outcome !== outcome) continue;
            found.push(taskView(state, one, partition.index, task));
            if (found.length === limit) return found;
          }
        }
      }
      return found;
    },
  };
}

function isActive({ tally }: JobRecord, nodeId: NodeId | null): boolean {
  return nodeId === null ? tally.counts.active > 0 : (tally.nodes.get(nodeId)?.active ?? 0) > 0;
}

function fits(
  job: JobRecord,
  { status, kind, text }: Pick<Query<typeof jobListQuerySchema>, 'status' | 'kind' | 'text'>,
): boolean {
  const { id, name, kind: its } = job.definition;
  if (status !== undefined && !status.includes(jobStatus(job))) return false;
  if (kind !== undefined && !kind.includes(its)) return false;
  if (text === undefined) return true;
  const wanted = text.toLowerCase();
  return name.toLowerCase().includes(wanted) || id.startsWith(wanted);
}

const keptOutput = 65_536;

function* newestFirst(
  { partitions }: JobRecord,
  index: number | undefined,
): Iterable<JobRecord['partitions'][number]> {
  if (index !== undefined) {
    const only = partitions[index];
    if (only) yield only;
    return;
  }
  for (let at = partitions.length - 1; at >= 0; at -= 1) {
    const partition = partitions[at];
    if (partition && partition.tasks.length > 0) yield partition;
  }
}

function finished(job: JobRecord, verb: string): CoveyError {
  const { id } = job.definition;
  return new CoveyError('job_finished', `${id} is ${jobStatus(job)}: there is nothing to ${verb}.`, {
    field: 'job',
  });
}
