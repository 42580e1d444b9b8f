import type { JobLog } from '#shared/api/jobs.ts';
import type { JobId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { printable } from '../text.ts';

const everyMs = 1_000;
/** Ranks whose logs are asked for at the same time. */
const atOnce = 16;

interface LogFlags {
  /** Absent: of a gang all ranks, else the first. */
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
  return view.kind === 'gang' && ranks > 1
    ? showRanks(context, view.id, ranks, flags)
    : showPartition(context, job, 0, flags);
}

async function showPartition(
  context: CommandContext,
  job: string,
  partition: number,
  flags: LogFlags,
): Promise<void> {
  const { io, json } = context;
  const read = (): Promise<JobLog> => readLog(context, job, partition, flags);
  const first = await read();
  if (json && !flags.follow) return io.out(`${JSON.stringify(first)}\n`);
  if (first.truncated) io.err('What it printed before is not kept.\n');
  if (first.output === '' && !flags.follow) io.err('It has printed nothing.\n');
  print(io, json, first, first.output);
  let last = first;
  await whileFollowed(context, flags, async () => {
    if (!last.running) return false;
    const next = await read();
    print(io, json, next, next.taskId === last.taskId ? newPart(last.output, next.output) : next.output);
    last = next;
    return true;
  });
}

/** Of every rank, line by line: what is not yet a whole line waits for its end. */
async function showRanks(context: CommandContext, job: JobId, ranks: number, flags: LogFlags): Promise<void> {
  const { api, io, json } = context;
  const seen = new Map<number, { readonly log: JobLog; readonly begun: string }>();
  const problems = new Map<number, string | null>();
  const show = (rank: number, log: JobLog): void => {
    const last = seen.get(rank);
    const goesOn = last?.log.taskId === log.taskId;
    const fresh = goesOn ? newPart(last.log.output, log.output) : log.output;
    if (json) {
      print(io, true, log, fresh);
      seen.set(rank, { log, begun: '' });
      return;
    }
    if (!goesOn && log.truncated) io.err(`What rank ${rank} printed before is not kept.\n`);
    const earlier = last?.begun ?? '';
    const lines = (goesOn || earlier === '' ? earlier + fresh : `${earlier}\n${fresh}`).split('\n');
    const begun = (log.running && flags.follow ? lines.pop() : null) ?? '';
    if (lines.at(-1) === '') lines.pop();
    for (const line of lines) io.out(`[${rank}] ${shown(line)}\n`);
    seen.set(rank, { log, begun });
  };
  const round = async (): Promise<void> => {
    for (let from = 0; from < ranks; from += atOnce) {
      const some = Array.from({ length: Math.min(atOnce, ranks - from) }, (_value, index) => from + index);
      const logs = await Promise.all(some.map((rank) => readThere(context, job, rank, flags)));
      logs.forEach((log, index) => {
        const rank = from + index;
        if ('taskId' in log) show(rank, log);
        else if (log.problem !== problems.get(rank)) {
          if (log.problem !== null) io.err(`Rank ${rank}: ${log.problem}\n`);
          problems.set(rank, log.problem);
        }
      });
    }
  };
  await round();
  if (!flags.follow && ![...seen.values()].some(({ log }) => log.output !== '')) {
    io.err('They have printed nothing.\n');
  }
  let over = false;
  await whileFollowed(context, flags, async () => {
    if (over) return false;
    // Asked for first: what was printed up to the end is shown too.
    over = (await api.call('job', { params: { job } })).finishedAt !== null;
    await round();
    return true;
  });
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

/** Or why there is none now, null: that rank has not begun. */
async function readThere(
  context: CommandContext,
  job: JobId,
  rank: number,
  flags: LogFlags,
): Promise<JobLog | { readonly problem: string | null }> {
  try {
    return await readLog(context, job, rank, flags);
  } catch (error) {
    if (!(error instanceof CoveyError) || error.code === 'controller_unreachable') throw error;
    if (error.code === 'task_not_found') return { problem: null };
    if (!error.retryable) throw error;
    return { problem: error.message };
  }
}

/** Once a second until it says that there is no more, or the person has enough. */
async function whileFollowed(
  { io }: CommandContext,
  { follow }: LogFlags,
  look: () => Promise<boolean>,
): Promise<void> {
  if (!follow) return;
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  try {
    do await io.sleep(everyMs, stop.signal);
    while (!stop.signal.aborted && (await look()));
  } finally {
    removeListener();
  }
}

function print(io: CommandContext['io'], json: boolean, log: JobLog, text: string): void {
  if (text === '') return;
  if (json) return io.out(`${JSON.stringify({ ...log, output: text })}\n`);
  const lines = text.split('\n').map(shown);
  io.out(lines.join('\n') + (text.endsWith('\n') ? '' : '\n'));
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
