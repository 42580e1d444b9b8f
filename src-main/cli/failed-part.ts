import type { JobView } from '#shared/domain/job.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from './context.ts';
import { printable } from './text.ts';

const lastLines = 10;
const timeoutMs = 10_000;

/** Where to look first when a job has failed. */
export interface FailedPart {
  readonly index: number;
  /** null: the newest one. */
  readonly attempt: number | null;
}

/**
 * The first partition that failed for good; of a gang the rank that failed, not those that were ended for it. null:
 * there is none.
 */
export async function failedPart(
  { api }: CommandContext,
  { id, kind, status, partitions, error }: JobView,
): Promise<FailedPart | null> {
  if (kind === 'gang' && status === 'failed') {
    for (const outcome of ['failed', 'crashed']) {
      const query = { job: id, outcome, limit: '1' };
      const [task] = (await api.call('tasks', { query, timeoutMs })).tasks;
      if (task) return { index: task.index, attempt: task.attempt };
    }
  }
  if (partitions.failed === 0) return null;
  // The one that the job's error tells of, which failed first; its number is in that sentence only.
  const told =
    error?.code === 'partition_poisoned' ? /^Partition (\d+) failed/.exec(error.message)?.[1] : null;
  const query = { status: 'failed', limit: '1', from: told ?? '0' };
  const [first] = (await api.call('jobPartitions', { params: { job: id }, query, timeoutMs })).partitions;
  return first ? { index: first.index, attempt: null } : null;
}

/** The end of what a failed attempt has printed, on standard error; nothing where there is none or nobody says. */
export async function showFailedOutput(context: CommandContext, job: JobView): Promise<void> {
  try {
    const part = await failedPart(context, job);
    if (part === null) return;
    const attempt = part.attempt === null ? {} : { attempt: String(part.attempt) };
    const log = await context.api.call('jobLog', {
      params: { job: job.id },
      query: { index: String(part.index), ...attempt },
      timeoutMs,
    });
    const lines = log.output.trimEnd().split(/\r?\n/);
    if (lines.join('') === '') return;
    const shown = lines.slice(-lastLines);
    const what = job.kind === 'gang' ? 'Rank' : 'Partition';
    const how = lines.length > shown.length || log.truncated ? 'printed at its end' : 'printed';
    context.io.err(
      `${what} ${part.index} ${how}:\n${shown.map((line) => `  ${printable(line)}\n`).join('')}`,
    );
  } catch (error) {
    // It is said already that the job has failed.
    if (!(error instanceof CoveyError)) throw error;
  }
}
