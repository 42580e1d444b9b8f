import type { JobId, NodeId } from '#shared/lib/ids.ts';
import type { ControllerEvent } from '../state/events.ts';
import type { JobEvent } from '../state/job-events.ts';
import { openJobs } from '../state/job-selectors.ts';
import type { JobRecord } from '../state/job-state.ts';
import type { NewEvent } from '../state/sqlite/store.ts';
import type { ControllerState } from '../state/state.ts';

const jobEventTypes: ReadonlySet<string> = new Set<JobEvent['type']>([
  'job-submitted',
  'job-cancel-requested',
  'job-retry-requested',
  'distribution-set',
  'job-removed',
  'tasks-assigned',
  'tasks-reported',
  'tasks-ended',
  'partitions-fetched',
  'partition-fetch-failed',
  'share-released',
  'gang-started',
  'result-collected',
  'job-failed',
  'compute-observed',
]);
/** Partitions that failed for good, of one job, that get a line of their own. */
const namedFailures = 5;

export function isJobEvent(event: ControllerEvent): event is JobEvent & { readonly at: number } {
  return jobEventTypes.has(event.type);
}

/**
 * What people hear of jobs, by what an event has made of them: that one was submitted, began, failed in part, ended.
 * The number of lines is bounded by the number of jobs, not of partitions.
 */
export function describeJobs(
  event: JobEvent & { readonly at: number },
  before: ControllerState,
  after: ControllerState,
): NewEvent[] {
  const lines: NewEvent[] = [];
  const say = (kind: string, level: NewEvent['level'], job: JobRecord, sentence: string): void => {
    const { name, id } = job.definition;
    lines.push({ at: event.at, kind, level, message: `${name} ${sentence}`, jobId: id });
  };
  const asked = 'jobId' in event ? (after.jobs.get(event.jobId) ?? before.jobs.get(event.jobId)) : undefined;
  if (event.type === 'job-submitted') {
    const job = after.jobs.get(event.definition.id);
    if (job) say(event.type, 'info', job, 'was submitted.');
  } else if (event.type === 'job-cancel-requested' && asked) {
    say(event.type, 'info', asked, 'is to be cancelled.');
  } else if (event.type === 'job-retry-requested' && asked) {
    say(event.type, 'info', asked, 'is tried again.');
  } else if (event.type === 'distribution-set' && asked) {
    say(
      event.type,
      'info',
      asked,
      `is divided ${event.distribution.mode === 'auto' ? 'by speed' : 'by hand'} now.`,
    );
  } else if (event.type === 'job-removed' && asked) {
    say(
      event.type,
      'info',
      asked,
      event.cause === 'old' ? 'was removed: newer jobs need its place.' : 'was removed.',
    );
  } else if (event.type === 'share-released' && asked) {
    const name = before.nodes.get(event.nodeId)?.durable.name ?? event.nodeId.slice(0, 12);
    say(event.type, 'warn', asked, `gives the share of ${name} to the other machines: it cannot work now.`);
  }
  if (event.type === 'compute-observed') lines.push(...ofPrograms(event, before, after));
  for (const job of changed(before, after)) {
    const was = before.jobs.get(job.definition.id);
    for (const sentence of newFailures(was, job)) say('partition-failed', 'warn', job, sentence);
    if (was?.course.finishedAt == null && job.course.finishedAt !== null) sayEnd(job, say);
    else if (was?.course.phase === 'queued' && job.course.phase === 'running' && !was.course.startedAt) {
      say('job-started', 'info', job, 'runs.');
    }
    const stopping = job.course.gang?.stopping;
    if (stopping && !was?.course.gang?.stopping) {
      say('gang-stopped', 'warn', job, `ends all its ranks: ${stopping.error.message}`);
    }
  }
  return lines;
}

function sayEnd(
  job: JobRecord,
  say: (kind: string, level: NewEvent['level'], job: JobRecord, sentence: string) => void,
): void {
  const { phase, error } = job.course;
  if (phase === 'done') say('job-done', 'info', job, 'is done.');
  else if (phase === 'cancelled') say('job-cancelled', 'info', job, 'was cancelled.');
  else say('job-failed', 'error', job, `failed${error ? `: ${error.message}` : '.'}`);
}

function newFailures(was: JobRecord | undefined, job: JobRecord): string[] {
  const before = was?.tally.counts.failed ?? 0;
  const { failed } = job.tally.counts;
  if (failed <= before || before >= namedFailures) return [];
  const sentences: string[] = [];
  for (const partition of job.partitions) {
    if (partition.phase !== 'failed' || was?.partitions[partition.index]?.phase === 'failed') continue;
    sentences.push(
      `lost partition ${partition.index} for good: ${partition.error?.message ?? 'no reason is known'}`,
    );
    if (before + sentences.length >= namedFailures) break;
  }
  return sentences;
}

/** Whether others' programs run on a machine is its owner's word, which the covey hears of. */
function ofPrograms(
  { nodeId, at }: { readonly nodeId: NodeId; readonly at: number },
  before: ControllerState,
  after: ControllerState,
): NewEvent[] {
  const was = before.nodes.get(nodeId)?.live.compute?.commands.allowed;
  const node = after.nodes.get(nodeId);
  const is = node?.live.compute?.commands.allowed;
  if (node === undefined || was === undefined || is === undefined || was === is) return [];
  const { name } = node.durable;
  const level = 'info';
  return [
    is
      ? { at, level, nodeId, kind: 'node-programs-allowed', message: `${name} runs programs of members now.` }
      : {
          at,
          level,
          nodeId,
          kind: 'node-programs-forbidden',
          message: `${name} runs programs of members no more.`,
        },
  ];
}

function changed(before: ControllerState, after: ControllerState): JobRecord[] {
  if (before.jobs === after.jobs) return [];
  const ids = new Set<JobId>();
  for (const job of openJobs(before.jobs)) ids.add(job.definition.id);
  for (const job of openJobs(after.jobs)) ids.add(job.definition.id);
  return [...ids].flatMap((id) => {
    const job = after.jobs.get(id);
    return job && job !== before.jobs.get(id) ? [job] : [];
  });
}
