import type { Command } from 'commander';
import { EVENTS_PER_PAGE, type ApiEvent, type LogLine } from '#shared/api/schema.ts';
import type { ApiClient } from '../api-client.ts';
import { parseWhole } from '../arguments.ts';
import type { CommandContext } from '../context.ts';
import type { AddCommands } from '../registry.ts';
import { printable } from '../text.ts';

export const addWatchingCommands: AddCommands = ({ add, act }) => {
  add('events', 'what has happened')
    .option('--follow', 'and what happens, until Ctrl-C', false)
    .option('--job <job>', 'of one job only')
    .action((flags: { follow: boolean; job?: string }, command: Command) =>
      act(command, (context) =>
        flags.job === undefined
          ? showEvents(context, flags.follow)
          : showJobEvents(context, flags.job, flags.follow),
      ),
    );
  add('logs', "the machines' logs")
    .option('--node <node>', 'of one machine only')
    .option('--lines <n>', 'how many of the newest', parseWhole(1, 5_000), 100)
    .action((flags: { node?: string; lines: number }, command: Command) =>
      act(command, (context) => showLogs(context, flags.node, flags.lines)),
    );
};

/** Kept events come at once when the stream opens; a pause of this length is their end. */
const quietMs = 500;

export async function showEvents(context: CommandContext, follow: boolean): Promise<void> {
  const { api, io } = context;
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  let quiet: NodeJS.Timeout | undefined;
  const armQuiet = (): void => {
    if (follow) return;
    clearTimeout(quiet);
    quiet = setTimeout(() => stop.abort(), quietMs);
  };
  let count = 0;
  try {
    armQuiet();
    for await (const event of api.events({ afterId: 0, signal: stop.signal })) {
      armQuiet();
      count += 1;
      printEvent(context, event);
    }
    if (count === 0 && !follow) io.err('Nothing has happened yet.\n');
  } finally {
    clearTimeout(quiet);
    removeListener();
  }
}

async function showJobEvents(context: CommandContext, job: string, follow: boolean): Promise<void> {
  const { api, io } = context;
  const events = await eventsOfJob(api, job);
  for (const event of events) printEvent(context, event);
  // Asked also without `follow`: nothing at all is a job that there is not.
  const id = events.at(-1)?.jobId ?? (await api.call('job', { params: { job } })).id;
  if (!follow) return;
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  try {
    const afterId = events.at(-1)?.id ?? 0;
    for await (const event of api.events({ afterId, signal: stop.signal })) {
      if (event.jobId === id) printEvent(context, event);
    }
  } finally {
    removeListener();
  }
}

/** All that are kept, the oldest first. */
async function eventsOfJob(api: ApiClient, job: string): Promise<ApiEvent[]> {
  const pages: ApiEvent[][] = [];
  for (let before: number | null | undefined; ;) {
    const query = {
      job,
      limit: String(EVENTS_PER_PAGE),
      ...(before == null ? {} : { before: String(before) }),
    };
    const { events, more } = await api.call('eventHistory', { query });
    pages.push(events);
    before = events.at(-1)?.id;
    if (!more || before == null) return pages.flat().reverse();
  }
}

function printEvent({ io, json, style }: CommandContext, event: ApiEvent): void {
  if (json) return io.out(`${JSON.stringify(event)}\n`);
  if (event.kind === 'load-progress') return;
  const paint = { info: (text: string) => text, warn: style.warn, error: style.bad }[event.level];
  io.out(`${style.dim(clockTime(event.at))}  ${paint(printable(event.message))}\n`);
}

export async function showLogs(
  context: CommandContext,
  node: string | undefined,
  lines: number,
): Promise<void> {
  const query = { limit: String(lines), ...(node === undefined ? {} : { node }) };
  const answer = await context.api.call('logs', { query });
  if (context.json) return context.io.out(`${JSON.stringify(answer)}\n`);
  for (const line of answer.lines) printLogLine(context, line);
  if (answer.lines.length === 0)
    context.io.err('No machine has logged anything since the controller started.\n');
}

function printLogLine({ io, style }: CommandContext, line: LogLine): void {
  const paint = { debug: style.dim, info: (text: string) => text, warn: style.warn, error: style.bad }[
    line.level
  ];
  const origin = `${printable(line.nodeName)} ${printable(line.source)}`;
  io.out(
    `${style.dim(clockTime(line.at))}  ${paint(line.level.padEnd(5))}  ${origin}: ${printable(line.message)}\n`,
  );
}

/** Local time to the second, sortable. */
function clockTime(at: number): string {
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
