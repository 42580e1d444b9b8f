import type { JobLive } from '#shared/api/dashboard.ts';
import type { JobKind } from '#shared/domain/job-spec.ts';
import type { JobStatus, JobSummary, JobView, PartitionStatus, TaskView } from '#shared/domain/job.ts';
import type { Tone } from '../../components/status.tsx';
import { formatCount, formatDuration, formatMs, formatPercent, formatShort } from '../../format/format.ts';

export const kindWords: Readonly<Record<JobKind, string>> = {
  kernel: 'Kernel',
  command: 'Command',
  map: 'Map',
  inference: 'Inference',
  gang: 'Gang',
};

/** What the parts of a job are called. */
export function partWord(kind: JobKind): 'partition' | 'rank' {
  return kind === 'gang' ? 'rank' : 'partition';
}

export const jobStatusWords: Readonly<Record<JobStatus, readonly [word: string, tone: Tone]>> = {
  preparing: ['Preparing', 'busy'],
  queued: ['Waiting', 'warn'],
  running: ['Running', 'busy'],
  cancelling: ['Cancelling', 'busy'],
  done: ['Done', 'good'],
  failed: ['Failed', 'bad'],
  cancelled: ['Cancelled', 'quiet'],
};
export const partitionStatusWords: Readonly<Record<PartitionStatus, readonly [word: string, tone: Tone]>> = {
  waiting: ['Waiting', 'quiet'],
  assigned: ['Assigned', 'busy'],
  running: ['Running', 'busy'],
  done: ['Done', 'good'],
  failed: ['Failed', 'bad'],
  cancelled: ['Cancelled', 'quiet'],
};
export const outcomeWords: Readonly<Record<TaskView['outcome'], readonly [word: string, tone: Tone]>> = {
  running: ['Running', 'busy'],
  done: ['Done', 'good'],
  failed: ['Failed', 'bad'],
  crashed: ['Crashed', 'bad'],
  lost: ['Lost', 'warn'],
  refused: ['Refused', 'warn'],
  cancelled: ['Cancelled', 'quiet'],
  superseded: ['Another was first', 'quiet'],
};

export function isFinished({ status }: Pick<JobView, 'status'>): boolean {
  return status === 'done' || status === 'failed' || status === 'cancelled';
}

/** A job with what the event stream says of it since; a finished one stays as it is. */
export function withLive<J extends JobSummary>(job: J, live: JobLive | undefined): J {
  return live === undefined || isFinished(job) ? job : { ...job, ...live };
}

/** 0..1; null: not known yet. */
export function shareDone({ units, status }: Pick<JobView, 'units' | 'status'>): number | null {
  if (status === 'done') return 1;
  if (units.total === null) return null;
  return units.total === 0 ? 0 : Math.min(1, units.done / units.total);
}

/** Never 100 % before it is done; empty: how much there is to do is not known yet. */
export function percentText(job: Pick<JobView, 'units' | 'status'>): string {
  const share = shareDone(job);
  if (share === null) return '';
  return formatPercent(job.status === 'done' ? 100 : Math.min(99, share * 100));
}

/** `12,000 of 50,000 records · 24 %` */
export function unitsText(job: Pick<JobView, 'units' | 'status'>): string {
  const { unit, total, done } = job.units;
  if (total === null) return `its ${unit} are being counted`;
  const amount = (value: number): string => (total >= 10_000_000 ? formatShort(value) : formatCount(value));
  const word = total === 1 ? unit.slice(0, -1) : unit;
  return `${amount(Math.floor(done))} of ${amount(total)} ${word} · ${percentText(job)}`;
}

export function partitionsText({
  partitions: { total, done, running, failed, cancelled },
}: Pick<JobView, 'partitions'>): string {
  const parts = [`${formatCount(done)} of ${formatCount(total)} done`];
  if (running > 0) parts.push(`${formatCount(running)} running`);
  if (failed > 0) parts.push(`${formatCount(failed)} failed`);
  if (cancelled > 0) parts.push(`${formatCount(cancelled)} cancelled`);
  return parts.join(', ');
}

/** Reasons are written to follow a name: alone they begin with a capital letter. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** Short times in more detail: `12 ms`, `1.2 s`, `3 min`. */
export function timeText(ms: number): string {
  return ms < 9_950 ? formatMs(ms) : formatDuration(ms);
}

/** `1.4M records/s` */
export function speedText(unitsPerS: number, unit: string): string {
  const value = unitsPerS >= 100 ? formatShort(Math.round(unitsPerS)) : unitsPerS.toPrecision(2);
  return `${Number.isFinite(Number(value)) ? String(Number(value)) : value} ${unit}/s`;
}
