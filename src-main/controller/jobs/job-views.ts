import type { JobSummary, JobView, PartitionView, ShareView, TaskView } from '#shared/domain/job.ts';
import type { JobStats } from '#shared/api/jobs.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { inputsOf } from './job-artifacts.ts';
import { slotsFor, whyNot } from '../scheduler/jobs/fit.ts';
import { roomForRanks } from '../scheduler/jobs/gang.ts';
import { jobProgress } from '../state/job-progress.ts';
import { isLive } from '../state/job-shares.ts';
import { openJobs, partitionStatus } from '../state/job-selectors.ts';
import type { JobOnNode, JobRecord, PartitionRecord, TaskRecord } from '../state/job-state.ts';
import { nodeName } from '../state/selectors.ts';
import type { ControllerState, NodeRecord } from '../state/state.ts';

/** A job for people. @param now for what is running */
export function jobView(state: ControllerState, job: JobRecord, now: number): JobView {
  const shares = shareViews(state, job);
  return {
    ...jobSummary(job, now),
    shares,
    notes: [...job.definition.notes, ...waitingNotes(state, job, shares, now)],
    result: job.course.result,
  };
}

/** The same for a list of thousands: nothing in it depends on the machines. */
export function jobSummary(job: JobRecord, now: number): JobSummary {
  const { definition, course } = job;
  return {
    id: definition.id,
    name: definition.name,
    kind: definition.kind,
    createdAt: definition.createdAt,
    startedAt: course.startedAt,
    finishedAt: course.finishedAt,
    ...jobProgress(job, now),
    distribution: course.distribution.mode,
    error: course.error,
  };
}

function shareViews(state: ControllerState, job: JobRecord): ShareView[] {
  const { course, tally } = job;
  const whole = course.total ?? 0;
  const targets = targetPercents(state, job);
  const ids = new Set<NodeId>([...state.nodes.keys(), ...tally.nodes.keys()]);
  return [...ids].map((nodeId): ShareView => {
    const node = state.nodes.get(nodeId);
    const done = tally.nodes.get(nodeId);
    return {
      nodeId,
      nodeName: nodeName(state, nodeId),
      targetPercent: targets.get(nodeId) ?? null,
      donePercent: whole > 0 ? Math.min(100, ((done?.doneUnits ?? 0) / whole) * 100) : 0,
      doneUnits: done?.doneUnits ?? 0,
      running: done?.active ?? 0,
      unitsPerS: done?.unitsPerS ?? null,
      whyNot: course.finishedAt !== null ? null : node === undefined ? 'was removed' : whyNot(job, node),
    };
  });
}

/** By hand: the weights. By speed: of the machines that may take some, as far as all of them are measured. */
function targetPercents(state: ControllerState, job: JobRecord): Map<NodeId, number> {
  const { distribution } = job.course;
  const weights = new Map<NodeId, number>();
  if (distribution.mode === 'manual') {
    for (const { nodeId, weight } of distribution.shares) weights.set(nodeId, weight);
  } else {
    for (const [nodeId, node] of state.nodes) {
      const speed = speedOf(job, node);
      if (speed === null || whyNot(job, node) !== null) continue;
      weights.set(nodeId, speed);
    }
  }
  const sum = [...weights.values()].reduce((total, weight) => total + weight, 0);
  return new Map(sum > 0 ? [...weights].map(([id, weight]) => [id, (weight / sum) * 100]) : []);
}

/** Units a second of the whole machine: at one task, times the tasks that it can run at once. */
function speedOf({ definition, tally }: JobRecord, { durable, live }: NodeRecord): number | null {
  const perTask = tally.nodes.get(durable.id)?.unitsPerS ?? null;
  if (perTask === null) return null;
  if (live.compute === null) return perTask;
  return perTask * Math.max(1, slotsFor(definition, live.compute, live.compute));
}

/** That it waits, and for what. */
function waitingNotes(
  state: ControllerState,
  job: JobRecord,
  shares: readonly ShareView[],
  now: number,
): string[] {
  const { course, tally } = job;
  const { counts } = tally;
  if (course.finishedAt !== null || course.ending || counts.active + counts.fetching > 0) return [];
  if (course.phase === 'collecting' || job.preparation?.phase === 'active') return [];
  const able = shares.filter((share) => share.whyNot === null);
  if (able.length > 0) return gangNotes(state, job, now) ?? busyNotes(state, job, able);
  const reasons = shares
    .map((share) => `${share.nodeName}: ${(share.whyNot ?? '').replace(/\.$/, '')}`)
    .slice(0, 8);
  return [
    reasons.length === 0
      ? 'It waits: no machine has joined yet.'
      : `It waits, no machine can take it now. ${reasons.join('; ')}.`,
  ];
}

/** That it could not start or was ended, and why; that there are too few machines for all ranks at once. */
function gangNotes(state: ControllerState, job: JobRecord, now: number): string[] | null {
  if (!job.definition.gang) return null;
  const ranks = job.partitions.length;
  const last = job.partitions.find(({ error }) => error !== null && error.code !== 'cancelled');
  const machine = last?.tasks.at(-1)?.nodeId;
  if (last?.error && machine !== undefined) {
    const where = `rank ${last.index} on ${nodeName(state, machine)}`;
    const inMs = Math.max(0, ...job.partitions.map(({ nextAttemptAt }) => (nextAttemptAt ?? 0) - now));
    const when = inMs > 0 ? `in ${Math.ceil(inMs / 1000)} s` : 'when there is room';
    return [`It starts again ${when}: ${where}: ${last.error.message}`];
  }
  const room = roomForRanks(job, state.nodes.values());
  if (room >= ranks) return null;
  return [`It waits for more machines: those that can take it have room for ${room} of its ${ranks} ranks.`];
}

/** That the machines work for others, and whether those go first. */
function busyNotes(state: ControllerState, job: JobRecord, able: readonly ShareView[]): string[] {
  const open = openJobs(state.jobs);
  const others = open.filter(
    ({ definition, tally }) =>
      definition !== job.definition && able.some(({ nodeId }) => (tally.nodes.get(nodeId)?.active ?? 0) > 0),
  );
  const [first] = others;
  if (!first) return [];
  const more = others.length - 1;
  const rest = more > 0 ? ` and ${more} other ${more === 1 ? 'job' : 'jobs'}` : '';
  const whose = `${first.definition.id}${rest}`;
  const isInFront = open.indexOf(first) < open.indexOf(job);
  return [isInFront ? `It waits its turn behind ${whose}.` : `It waits for room beside ${whose}.`];
}

export function partitionView(
  state: ControllerState,
  job: JobRecord,
  partition: PartitionRecord,
): PartitionView {
  const live = partition.tasks.filter(isLive);
  const shown =
    partition.tasks.findLast(({ outcome }) => outcome === 'done') ?? live[0] ?? partition.tasks.at(-1);
  const done = partition.phase === 'done' || partition.phase === 'fetching';
  return {
    index: partition.index,
    range: partition.range,
    status: partitionStatus(job, partition),
    progress: done ? 1 : Math.max(0, ...live.map((task) => task.progress)),
    attempts: partition.attempt,
    nodeId: shown?.nodeId ?? null,
    nodeName: shown ? nodeName(state, shown.nodeId) : null,
    startedAt: shown ? startOf(shown) : null,
    finishedAt: partition.finishedAt,
    error: partition.phase === 'done' ? null : partition.error,
    nextAttemptAt: partition.phase === 'waiting' ? partition.nextAttemptAt : null,
  };
}

export function taskView(state: ControllerState, job: JobRecord, index: number, task: TaskRecord): TaskView {
  return {
    id: task.id,
    jobId: job.definition.id,
    jobName: job.definition.name,
    index,
    attempt: task.attempt,
    nodeId: task.nodeId,
    nodeName: nodeName(state, task.nodeId),
    outcome: task.outcome,
    speculative: task.speculative,
    assignedAt: task.assignedAt,
    startedAt: startOf(task),
    endedAt: task.endedAt,
    error: task.error,
    exitCode: task.exitCode,
    usage: task.usage,
  };
}

/** Short ones are over before a machine has said that they began, and a restart forgets it: their length tells. */
function startOf({ startedAt, endedAt, usage }: TaskRecord): number | null {
  if (startedAt !== null || endedAt === null || usage === null) return startedAt;
  return endedAt - usage.wallMs;
}

/** Figures over all attempts that are still kept. */
export function jobStats(job: JobRecord, now: number): JobStats {
  const { course, definition } = job;
  const tasks: Record<string, number> = {};
  const wall: number[] = [];
  let cpuMs: number | null = null;
  let peakBytes: number | null = null;
  for (const partition of job.partitions) {
    for (const { outcome, usage } of partition.tasks) {
      tasks[outcome] = (tasks[outcome] ?? 0) + 1;
      if (usage === null) continue;
      if (usage.cpuMs !== null) cpuMs = (cpuMs ?? 0) + usage.cpuMs;
      if (usage.peakBytes !== null) peakBytes = Math.max(peakBytes ?? 0, usage.peakBytes);
      if (outcome === 'done') wall.push(usage.wallMs);
    }
  }
  wall.sort((a, b) => a - b);
  const at = (fraction: number): number =>
    wall[Math.min(wall.length - 1, Math.floor(fraction * wall.length))] ?? 0;
  return {
    jobId: definition.id,
    wallMs: course.startedAt === null ? 0 : Math.max(0, (course.finishedAt ?? now) - course.startedAt),
    cpuMs,
    tasks,
    partitionMs: wall.length === 0 ? null : { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) },
    stagedBytes: stagedBytes(job),
    peakBytes,
  };
}

/** Inputs that each machine which worked on it has had to get: at most once, whatever it had already. */
function stagedBytes({ definition, tally }: JobRecord): number {
  const inputs = inputsOf(definition.work);
  const each = inputs.reduce((sum, { bytes }) => sum + bytes, 0);
  const machines = [...tally.nodes.values()].filter(hasWorked).length;
  return each * machines;
}

function hasWorked({ donePartitions, active }: JobOnNode): boolean {
  return donePartitions > 0 || active > 0;
}
