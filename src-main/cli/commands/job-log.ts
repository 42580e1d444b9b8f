import type { JobLog } from '#shared/api/jobs.ts';
import type { CommandContext } from '../context.ts';
import { printable } from '../text.ts';

const everyMs = 1_000;

/** What was printed is shown safe for a terminal, line by line; with `--json` as it came. */
export async function showJobLog(
  { api, io, json }: CommandContext,
  job: string,
  flags: { readonly partition: number; readonly attempt?: number; readonly follow: boolean },
): Promise<void> {
  const query = {
    index: String(flags.partition),
    ...(flags.attempt === undefined ? {} : { attempt: String(flags.attempt) }),
  };
  const read = (): Promise<JobLog> => api.call('jobLog', { params: { job }, query });
  const first = await read();
  if (json && !flags.follow) return io.out(`${JSON.stringify(first)}\n`);
  if (first.truncated) io.err('What it printed before is not kept.\n');
  if (first.output === '' && !flags.follow) io.err('It has printed nothing.\n');
  print(io, json, first, first.output);

  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  try {
    let last = first;
    while (flags.follow && last.running && !stop.signal.aborted) {
      await io.sleep(everyMs, stop.signal);
      const next = await read();
      print(io, json, next, next.taskId === last.taskId ? newPart(last.output, next.output) : next.output);
      last = next;
    }
  } finally {
    removeListener();
  }
}

function print(io: CommandContext['io'], json: boolean, log: JobLog, text: string): void {
  if (text === '') return;
  if (json) return io.out(`${JSON.stringify({ ...log, output: text })}\n`);
  const lines = text.split('\n').map((line) => printable(line.replace(/\r$/, '')));
  io.out(lines.join('\n') + (text.endsWith('\n') ? '' : '\n'));
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
