import type { JobId, NodeId, TaskId } from '#shared/lib/ids.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { lostAttemptLimit } from '#shared/config.ts';
import { assign, backoffAfter, endByController, fetched, fetchFailed, report } from './apply-reports.ts';
import { JobDraft } from './job-draft.ts';
import type { JobEvent } from './job-events.ts';
import { initialPartitions, partitionAt, partitionCount, shareOut, untouched } from './job-shares.ts';
import { finished, tallied } from './job-tally.ts';
import { preparationIndex, type JobCourse, type JobRecord, type PartitionRecord } from './job-state.ts';

export type Jobs = ReadonlyMap<JobId, JobRecord>;
type Timed = Exclude<JobEvent, { type: 'compute-observed' }> & { readonly at: number };

/**
 * The jobs after an event. Total: what is stale or about nothing that is here changes nothing.
 * @param nameOf names of machines, for the words of errors
 */
export function applyJobs(jobs: Jobs, event: Timed, nameOf: NameOf): Jobs {
  const { at } = event;
  const onJob = onOne(nameOf);
  const onEach = onMany(nameOf);
  switch (event.type) {
    case 'job-submitted':
      return jobs.has(event.definition.id) ? jobs : put(jobs, submitted(event));
    case 'job-removed': {
      const job = jobs.get(event.jobId);
      if (!job || job.course.finishedAt === null) return jobs;
      const next = new Map(jobs);
      next.delete(event.jobId);
      return next;
    }
    case 'job-cancel-requested':
      return onJob(jobs, event.jobId, (draft) => endAs(draft, 'cancelled', at), at);
    case 'job-failed':
      return onJob(
        jobs,
        event.jobId,
        (draft) => {
          if (draft.course.finishedAt === null) draft.setCourse({ error: event.error });
          endAs(draft, 'failed', at);
        },
        at,
      );
    case 'job-retry-requested': {
      const job = jobs.get(event.jobId);
      return job && isRetryable(job) ? put(jobs, settled(retried(job), at)) : jobs;
    }
    case 'distribution-set':
      return onJob(
        jobs,
        event.jobId,
        (draft) => {
          draft.setCourse({ distribution: event.distribution });
          const counted = draft.definition.division.mode === 'counted';
          draft.rest = shareOut(draft.rest, event.distribution, draft.all(), counted);
          for (const index of draft.before.tally.again) disown(draft, index);
        },
        at,
      );
    case 'share-released':
      return onJob(
        jobs,
        event.jobId,
        (draft) => {
          if (draft.rest.some(({ owner }) => owner === event.nodeId)) {
            draft.rest = draft.rest.map((segment) =>
              segment.owner === event.nodeId ? { ...segment, owner: null } : segment,
            );
          }
          for (const index of draft.before.tally.again) {
            if (draft.partition(index)?.owner === event.nodeId) disown(draft, index);
          }
        },
        at,
      );
    case 'tasks-assigned':
      return onEach(jobs, event.assignments, (draft, assignment) => assign(draft, assignment, at), at);
    case 'tasks-reported': {
      const placed = event.reports.map((word) => ({ ...placeOf(word.taskId), word }));
      return onEach(
        jobs,
        placed,
        (draft, { index, word }) => report(draft, index, event.nodeId, word, at),
        at,
      );
    }
    case 'tasks-ended':
      return onEach(jobs, event.ends, (draft, end) => endByController(draft, end, at), at);
    case 'partitions-fetched':
      return onEach(
        jobs,
        event.partitions,
        (draft, { index, epoch }) => fetched(draft, index, epoch, at),
        at,
      );
    case 'partition-fetch-failed': {
      const { index, epoch } = event.partition;
      return onEach(
        jobs,
        [event.partition],
        (draft) => fetchFailed(draft, index, epoch, event.error, at),
        at,
      );
    }
    case 'gang-started':
      return onJob(
        jobs,
        event.jobId,
        (draft) => {
          const { gang } = draft.course;
          if (gang?.start !== event.start || gang.goAt !== null || gang.stopping) return;
          draft.setCourse({ gang: { ...gang, goAt: at } });
        },
        at,
      );
    case 'result-collected':
      return onJob(
        jobs,
        event.jobId,
        (draft) => {
          if (draft.course.phase !== 'collecting') return;
          const phase = event.result.missing > 0 ? 'failed' : 'done';
          draft.setCourse({ phase, result: event.result, finishedAt: at });
        },
        at,
      );
  }
}

/** Job and partition that a task is an attempt at; its id says so (`taskIdSchema`). */
export function placeOf(id: TaskId): { jobId: JobId; index: number } {
  const dot = id.indexOf('.');
  return { jobId: id.slice(0, dot) as JobId, index: Number(id.slice(dot + 1, id.lastIndexOf('.'))) };
}

function submitted({ definition, distribution, at }: Extract<Timed, { type: 'job-submitted' }>): JobRecord {
  const { index, total } = definition;
  const partitions = index || total === null ? [] : initialPartitions(definition, total);
  const preparing = index !== null;
  const course: JobCourse = {
    phase: preparing ? 'preparing' : 'queued',
    startedAt: null,
    finishedAt: null,
    ending: null,
    total: preparing ? null : total,
    seeks: [],
    distribution,
    error: null,
    result: null,
    gang: definition.gang ? { start: 0, goAt: null, incomplete: 0, stopping: null } : null,
  };
  const preparation = preparing ? untouched(preparationIndex, null) : null;
  return settled(tallied({ definition, course, preparation, partitions }), at);
}

function endAs(draft: JobDraft, as: 'cancelled' | 'failed', at: number): void {
  const { course } = draft;
  if (course.finishedAt !== null || course.ending) return;
  draft.setCourse({ phase: 'cancelling', ending: { at, as } });
}

function disown(draft: JobDraft, index: number): void {
  const partition = draft.partition(index);
  if (partition?.phase === 'waiting' && partition.owner !== null) draft.set({ ...partition, owner: null });
}

export function isRetryable({ course }: JobRecord): boolean {
  return course.phase === 'failed' || course.phase === 'cancelled';
}

/** What has a result keeps it, also one that is still to be fetched. */
function retried(job: JobRecord): JobRecord {
  const renew = (partition: PartitionRecord): PartitionRecord =>
    partition.phase === 'done' || partition.phase === 'fetching'
      ? partition
      : {
          ...partition,
          phase: 'waiting',
          failures: 0,
          losses: 0,
          owner: null,
          nextAttemptAt: null,
          error: null,
          finishedAt: null,
        };
  const preparing = job.course.total === null && job.preparation !== null;
  const { gang } = job.course;
  const course: JobCourse = {
    ...job.course,
    phase: preparing ? 'preparing' : 'queued',
    finishedAt: null,
    ending: null,
    error: null,
    result: null,
    gang: gang && { ...gang, goAt: null, stopping: null, incomplete: gang.start },
  };
  const whole = job.definition.gang !== null;
  const next = tallied({
    definition: job.definition,
    course,
    preparation: preparing && job.preparation ? renew(job.preparation) : job.preparation,
    partitions: Array.from({ length: partitionCount(job) }, (_, index) => partitionAt(job, index))
      .filter((partition) => partition !== undefined)
      .map((partition) => (whole ? again(partition, null) : renew(partition))),
  });
  // What machines said that they cannot do is asked anew.
  const nodes = new Map([...next.tally.nodes].map(([id, node]) => [id, { ...node, refused: null }]));
  return { ...next, tally: { ...next.tally, nodes } };
}

/** As `waiting`, whatever it was: a gang begins again with all its ranks. */
function again(partition: PartitionRecord, nextAttemptAt: number | null): PartitionRecord {
  return { ...partition, phase: 'waiting', nextAttemptAt, finishedAt: null };
}

/** A rank of a gang that has failed for good, which the one of this index has ended. */
function overWith(rank: PartitionRecord, first: number | undefined, at: number): PartitionRecord {
  if (rank.phase !== 'waiting') return rank;
  return {
    ...rank,
    phase: rank.index === first ? 'failed' : 'cancelled',
    nextAttemptAt: null,
    finishedAt: at,
  };
}

/**
 * What follows at once from what a job's partitions are now:
 * 1. Told to end and nothing runs: it has ended.
 * 2. A gang that stops and of which nothing runs: it starts again after a pause, or has failed.
 * 3. No partition is left: its result can be collected.
 */
function settled(job: JobRecord, at: number): JobRecord {
  const { course, tally, definition, preparation } = job;
  if (course.finishedAt !== null) return job;
  const running = tally.counts.active > 0 || preparation?.phase === 'active';
  const withCourse = (change: Partial<JobCourse>): JobRecord => ({
    ...job,
    course: { ...course, ...change },
  });
  // 1.
  if (course.ending) {
    if (running) return course.phase === 'cancelling' ? job : withCourse({ phase: 'cancelling' });
    return finished(withCourse({ phase: course.ending.as, finishedAt: at }));
  }
  // 2.
  const stopping = course.gang?.stopping;
  if (course.gang && stopping) {
    if (running) return job;
    const gone = course.gang.goAt !== null;
    const incomplete = course.gang.incomplete + (gone ? 0 : 1);
    const restarts = course.gang.start - incomplete;
    const gang = { ...course.gang, goAt: null, stopping: null, incomplete };
    const failsForGood = gone
      ? restarts > (definition.gang?.restarts ?? 0)
      : !stopping.lost || incomplete >= lostAttemptLimit;
    if (failsForGood) {
      const error: ErrorBody = { code: 'partition_poisoned', message: stopping.error.message };
      const ended: JobCourse = {
        ...course,
        ...{ gang, error, phase: 'failed', finishedAt: at, ending: { at, as: 'failed' } },
      };
      const partitions = job.partitions.map((rank) => overWith(rank, stopping.rank, at));
      return tallied({ ...job, course: ended, partitions });
    }
    // Without a pause what is missing for a moment, such as free ports, would use up all tries in a few seconds.
    const pausedUntil = at + backoffAfter(definition, gone ? restarts : incomplete);
    const nextAttemptAt = Math.max(pausedUntil, ...job.partitions.map((rank) => rank.nextAttemptAt ?? 0));
    const partitions = job.partitions.map((partition) => again(partition, nextAttemptAt));
    return tallied({ ...job, course: { ...course, gang }, partitions });
  }
  // 3.
  if (course.phase !== 'queued' && course.phase !== 'running') return job;
  const { counts } = tally;
  const open = counts.waiting + counts.active + counts.fetching + tally.rest.length;
  return open === 0 ? withCourse({ phase: 'collecting', startedAt: course.startedAt ?? at }) : job;
}

function put(jobs: Jobs, job: JobRecord): Jobs {
  return new Map(jobs).set(job.definition.id, job);
}

type NameOf = (id: NodeId) => string;

function onOne(nameOf: NameOf) {
  return (jobs: Jobs, id: JobId, change: (draft: JobDraft) => void, at: number): Jobs => {
    const before = jobs.get(id);
    if (!before) return jobs;
    const draft = new JobDraft(before, nameOf);
    change(draft);
    const next = draft.finish();
    return next === before ? jobs : put(jobs, settled(next, at));
  };
}

/** Each item in order, with one copy of what it touches for all of them. */
function onMany(nameOf: NameOf) {
  return <T extends { readonly jobId: JobId }>(
    jobs: Jobs,
    items: readonly T[],
    change: (draft: JobDraft, item: T) => void,
    at: number,
  ): Jobs => {
    const drafts = new Map<JobId, JobDraft>();
    for (const item of items) {
      const before = jobs.get(item.jobId);
      if (!before) continue;
      let draft = drafts.get(item.jobId);
      if (!draft) drafts.set(item.jobId, (draft = new JobDraft(before, nameOf)));
      change(draft, item);
    }
    let next: Map<JobId, JobRecord> | null = null;
    for (const [id, draft] of drafts) {
      const job = draft.finish();
      if (job !== draft.before) (next ??= new Map(jobs)).set(id, settled(job, at));
    }
    return next ?? jobs;
  };
}
