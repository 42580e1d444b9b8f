import type { JobSummary, JobView, PartitionView, TaskView } from '#shared/domain/job.ts';
import type { Style } from './context.ts';
import { duration, percent, plural } from './text.ts';

/** `12`, `9999`, `1.2 M`: three digits and a unit from ten thousand on. */
export function amount(value: number): string {
  if (value < 10_000) return String(Number.isInteger(value) ? value : Number(value.toPrecision(3)));
  const steps: readonly (readonly [number, string])[] = [
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ];
  const [size, unit] = steps.find(([from]) => value >= from * 0.9995) ?? [1, ''];
  const scaled = value / size;
  return `${scaled.toFixed(scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2)} ${unit}`.trimEnd();
}

/** `[######----]`. @param fraction 0..1 */
export function bar(fraction: number, width: number): string {
  const filled = Math.max(0, Math.min(width, Math.floor(fraction * width)));
  return `[${'#'.repeat(filled)}${'-'.repeat(width - filled)}]`;
}

/** 0..1; null: its size is not known yet. */
export function fractionDone({ units, status }: JobSummary): number | null {
  if (status === 'done') return 1;
  if (units.total === null) return null;
  return units.total === 0 ? 0 : Math.min(1, units.done / units.total);
}

/** Never 100 % before it is done. */
export function percentDone(job: JobSummary): string {
  const fraction = fractionDone(job);
  if (fraction === null) return '';
  return percent(job.status === 'done' ? 100 : Math.min(99, Math.floor(fraction * 100)));
}

/** Elements are many: their numbers are rounded. */
export function unitsText({ units }: JobView): string {
  return units.total === null
    ? `${amount(units.done)} ${units.unit}, how many there are is being counted`
    : `${amount(units.done)} of ${amount(units.total)} ${units.unit}`;
}

export function partitionsText({ partitions }: JobView): string {
  const parts = [`${partitions.done} of ${partitions.total} done`];
  if (partitions.running > 0) parts.push(`${partitions.running} running`);
  if (partitions.waiting > 0) parts.push(`${partitions.waiting} waiting`);
  if (partitions.failed > 0) parts.push(`${partitions.failed} failed`);
  if (partitions.cancelled > 0) parts.push(`${partitions.cancelled} cancelled`);
  return parts.join(', ');
}

/** How long it has run or ran; null: it has not started. */
export function jobMs(job: JobSummary, now: number): number | null {
  return job.startedAt === null ? null : Math.max(0, (job.finishedAt ?? now) - job.startedAt);
}

export function isFinished({ status }: JobSummary): boolean {
  return status === 'done' || status === 'failed' || status === 'cancelled';
}

/** What is left by its speed until now; null: too little is done for telling. */
export function leftText(job: JobSummary & Pick<JobView, 'remainingMs'>): string | null {
  if (job.remainingMs === null || (fractionDone(job) ?? 0) < 0.01) return null;
  return `about ${duration(job.remainingMs)}`;
}

/** Step and detail for the live line. A bar is there when something has begun. */
export function progressText(job: JobView): [step: string, detail: string] {
  const fraction = fractionDone(job);
  const { running, failed } = job.partitions;
  const machines = job.shares.filter((share) => share.running > 0).length;
  const left = leftText(job);
  const figures = [
    fraction === null || (fraction === 0 && running === 0) ? '' : `${bar(fraction, 20)} ${percentDone(job)}`,
    machines > 0 ? `on ${plural(machines, 'machine')}` : '',
    failed > 0 ? `${failed} failed` : '',
    left === null ? '' : `${left} left`,
  ];
  return [`${job.name}: ${job.status}`, figures.filter(Boolean).join(', ')];
}

/** Why nothing of it runs now, as a whole sentence; null: something does, or nobody says. */
export function waitReason(job: JobView): string | null {
  return job.partitions.running > 0 || isFinished(job) ? null : (job.notes.at(-1) ?? null);
}

export function jobStyle(style: Style, { status }: JobSummary): (text: string) => string {
  return (
    { done: style.good, running: style.good, failed: style.bad, cancelled: style.dim }[status as string] ??
    style.warn
  );
}

export function partitionStyle(style: Style, { status }: PartitionView): (text: string) => string {
  return (
    { done: style.good, running: style.good, failed: style.bad, cancelled: style.dim }[status as string] ??
    ((text) => text)
  );
}

export function taskStyle(style: Style, { outcome }: TaskView): (text: string) => string {
  if (outcome === 'done' || outcome === 'running') return style.good;
  if (outcome === 'superseded' || outcome === 'cancelled') return style.dim;
  return outcome === 'lost' ? style.warn : style.bad;
}
