import type { JobLog } from '#shared/api/jobs.ts';
import type { JobId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { failedPart } from '../failed-part.ts';
import { printable } from '../text.ts';

const everyMs = 1_000;
const awayMs = 60_000;
/** Ranks whose logs are asked for at the same time. */
const atOnce = 16;

interface LogFlags {
  /** Absent: of a gang all ranks, else the first that failed, else the first. */
  readonly partition?: number;
  readonly attempt?: number;
  readonly follow: boolean;
}

/**
 * What was printed is shown safe for a terminal, line by line; with `--json` as it came. Lines of several ranks begin
 * with `[RANK]`.
 */
export async function showJobLog(context: CommandContext, job: string, flags: LogFlags): Promise<void> {
  if (flags.partition !== undefined) return showPartition(context, job, flags.partition, flags);
  const view = await context.api.call('job', { params: { job } });
  const ranks = view.partitions.total;
  if (view.kind === 'gang' && ranks > 1) return showRanks(context, view.id, ranks, flags);
  const failed = await failedPart(context, view);
  const { index } = failed ?? { index: 0 };
  if (ranks > 1) {
    const which = failed === null ? '' : ', the first that failed';
    context.io.err(`This is partition ${index} of ${ranks}${which}; --partition N shows another one.\n`);
  }
  return showPartition(context, job, index, flags);
}

async function showPartition(
  context: CommandContext,
  job: string,
  partition: number,
  flags: LogFlags,
): Promise<void> {
  const { io, json } = context;
  if (!flags.follow) {
    const log = await readLog(context, job, partition, flags);
    if (json) return io.out(`${JSON.stringify(log)}\n`);
    if (log.output === '') io.err('It has printed nothing.\n');
    return createPrinter(context, flags, null).show(log);
  }
  const printer = createPrinter(context, flags, null);
  await whileFollowed(context, async () => {
    const log = await readThere(context, job, partition, flags);
    printer.take(log);
    if ('taskId' in log && log.running) return true;
    // Between two attempts there is none that runs.
    return flags.attempt === undefined && isOpen(context, job, partition);
  });
}

/** Whether there may be another attempt at it. */
async function isOpen({ api }: CommandContext, job: string, partition: number): Promise<boolean> {
  const query = { from: String(partition), limit: '1' };
  const [view, { partitions }] = await Promise.all([
    api.call('job', { params: { job } }),
    api.call('jobPartitions', { params: { job }, query }),
  ]);
  if (view.finishedAt !== null) return false;
  const [found] = partitions;
  return found?.index !== partition || !['done', 'failed', 'cancelled'].includes(found.status);
}

/** Of every rank, line by line. */
async function showRanks(context: CommandContext, job: JobId, ranks: number, flags: LogFlags): Promise<void> {
  const { api, io } = context;
  const printers = Array.from({ length: ranks }, (_value, rank) => createPrinter(context, flags, rank));
  const round = async (): Promise<void> => {
    for (let from = 0; from < ranks; from += atOnce) {
      const some = printers.slice(from, from + atOnce);
      const logs = await Promise.all(
        some.map((_printer, index) => readThere(context, job, from + index, flags)),
      );
      logs.forEach((log, index) => some[index]?.take(log));
    }
  };
  if (!flags.follow) {
    await round();
    if (!printers.some((printer) => printer.hasShown())) io.err('They have printed nothing.\n');
    return;
  }
  let over = false;
  await whileFollowed(context, async () => {
    if (over) return false;
    // Asked for first: what was printed up to the end is shown too.
    over = (await api.call('job', { params: { job } })).finishedAt !== null;
    await round();
    return true;
  });
}

/** Shows of one partition what is new, as whole lines while it is followed, and once what keeps it from being asked. */
interface Printer {
  take(log: JobLog | Problem): void;
  show(log: JobLog): void;
  hasShown(): boolean;
}

/** @param rank null: there is only this one */
function createPrinter({ io, json }: CommandContext, { follow }: LogFlags, rank: number | null): Printer {
  const prefix = rank === null ? '' : `[${rank}] `;
  let last: JobLog | null = null;
  /** The beginning of a line whose end has not come. */
  let begun = '';
  let problem: string | null = null;
  const show = (log: JobLog): void => {
    const goesOn = last?.taskId === log.taskId;
    const fresh = last !== null && goesOn ? newPart(last.output, log.output) : log.output;
    last = log;
    if (json) {
      if (fresh !== '') io.out(`${JSON.stringify({ ...log, output: fresh })}\n`);
      return;
    }
    if (!goesOn && log.truncated) {
      io.err(`What ${rank === null ? 'it' : `rank ${rank}`} printed before is not kept.\n`);
    }
    const lines = (goesOn || begun === '' ? begun + fresh : `${begun}\n${fresh}`).split('\n');
    begun = (log.running && follow ? lines.pop() : null) ?? '';
    if (lines.at(-1) === '') lines.pop();
    for (const line of lines) io.out(`${prefix}${shown(line)}\n`);
  };
  return {
    show,
    take(log) {
      if ('taskId' in log) return show(log);
      if (log.problem === problem) return;
      ({ problem } = log);
      if (problem !== null) io.err(`${rank === null ? '' : `Rank ${rank}: `}${printable(problem)}\n`);
    },
    hasShown: () => last !== null && last.output !== '',
  };
}

function readLog(
  { api }: CommandContext,
  job: string,
  partition: number,
  { attempt }: LogFlags,
): Promise<JobLog> {
  const query = { index: String(partition), ...(attempt === undefined ? {} : { attempt: String(attempt) }) };
  return api.call('jobLog', { params: { job }, query });
}

/** Why there is no log now; null: that one has not begun. */
interface Problem {
  readonly problem: string | null;
}

async function readThere(
  context: CommandContext,
  job: string,
  rank: number,
  flags: LogFlags,
): Promise<JobLog | Problem> {
  try {
    return await readLog(context, job, rank, flags);
  } catch (error) {
    if (!(error instanceof CoveyError) || error.code === 'controller_unreachable') throw error;
    if (error.code === 'task_not_found') return { problem: null };
    if (!error.retryable) throw error;
    return { problem: error.message };
  }
}

/**
 * Looks once a second until it says that there is no more, or the person has enough. A controller that is away for
 * a moment is waited for, once it has answered.
 */
async function whileFollowed({ io }: CommandContext, look: () => Promise<boolean>): Promise<void> {
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  let heardAt: number | null = null;
  try {
    while (!stop.signal.aborted) {
      try {
        if (!(await look())) return;
        heardAt = io.now();
      } catch (error) {
        const mayComeBack = error instanceof CoveyError && error.retryable;
        if (heardAt === null || !mayComeBack || io.now() - heardAt > awayMs) throw error;
      }
      await io.sleep(everyMs, stop.signal);
    }
  } finally {
    removeListener();
  }
}

function shown(line: string): string {
  return printable(line.replace(/\r$/, ''));
}

/**
 * What came since: both are ends of the same text, of which only so much is kept. Where they do not overlap, more
 * was printed than is kept, and all of it is new.
 */
export function newPart(before: string, now: string): string {
  if (now.startsWith(before)) return now.slice(before.length);
  for (let length = Math.min(before.length, now.length); length > 0; length -= 1) {
    if (before.endsWith(now.slice(0, length))) return now.slice(length);
  }
  return now;
}
