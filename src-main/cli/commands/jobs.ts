import { Option, type Command } from 'commander';
import { jobStatusSchema, partitionStatusSchema } from '#shared/domain/job.ts';
import type { JobSummary, JobView, PartitionView, ShareView } from '#shared/domain/job.ts';
import { jobJsonSchema } from '#shared/domain/job-schema.ts';
import { parseWhole } from '../arguments.ts';
import { tell, type CommandContext } from '../context.ts';
import { describeError, Exit, exitCodes, UsageError } from '../failure.ts';
import {
  amount,
  isFinished,
  jobMs,
  jobStyle,
  leftText,
  partitionsText,
  partitionStyle,
  percentDone,
  unitsText,
} from '../job-text.ts';
import { helpParagraph } from '../help-text.ts';
import { getResults } from '../job-get.ts';
import { resultNotes, resultText } from '../job-result-text.ts';
import { finishJob, jobName } from '../job-wait.ts';
import type { AddCommands } from '../registry.ts';
import { renderFields, renderTable, type Column } from '../table.ts';
import { bytes, duration, percent, plural, printable, wrap } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';
import { interruptible } from './artifacts.ts';
import { showJobLog } from './job-log.ts';
import { listTemplates, printTemplate } from './job-templates.ts';

interface ListFlags extends WatchFlags {
  readonly status?: string;
  readonly before?: string;
  readonly limit: number;
}
interface PartitionFlags extends WatchFlags {
  readonly status?: string;
  readonly limit: number;
  readonly from: number;
}

export const addJobCommands: AddCommands = ({ add, act, group, io, options }) => {
  const jobs = group(
    'jobs',
    'what was asked to be computed',
    (context) => listJobs(context, { limit: 100 }),
    'watchable',
  );
  watchOption(add('list', 'list the jobs, newest first', jobs))
    .addOption(new Option('--status <status>', 'only these').choices(jobStatusSchema.options))
    .option('--limit <n>', 'at most so many', parseWhole(1, 1_000), 100)
    .option('--before <job>', 'those that were there before this one')
    .action((flags: ListFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => listJobs(context, flags)),
      ),
    );
  watchOption(add('info <job>', 'all about one job', jobs)).action(
    (job: string, flags: WatchFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => showJob(context, job)),
      ),
  );
  add('stats <job>', 'times, attempts and memory of a job', jobs).action(
    (job: string, _flags, command: Command) => act(command, (context) => showStats(context, job)),
  );
  watchOption(add('partitions <job>', 'the parts of a job', jobs))
    .addOption(new Option('--status <status>', 'only these').choices(partitionStatusSchema.options))
    .option('--from <index>', 'from this one on', parseWhole(0, 1_000_000_000), 0)
    .option('--limit <n>', 'at most so many', parseWhole(1, 1_000), 200)
    .action((job: string, flags: PartitionFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => listPartitions(context, job, flags)),
      ),
    );
  add('wait <job>', 'wait for a job and show its result', jobs).action(
    (job: string, _flags, command: Command) =>
      act(command, async (context) => finishJob(context, await jobOf(context, job))),
  );
  add('logs <job>', 'what a partition or a gang has printed', jobs)
    .option(
      '--partition <index>',
      'which one (default: all of a gang, else the first that failed, or 0)',
      parseWhole(0, 1_000_000_000),
    )
    .option('--attempt <n>', 'which attempt (default: the newest)', parseWhole(1, 9_999))
    .option('--follow', 'and what it prints, until it ends', false)
    .action(
      (job: string, flags: { partition?: number; attempt?: number; follow: boolean }, command: Command) =>
        act(command, (context) => showJobLog(context, job, flags)),
    );
  add('get <job> [directory]', 'get all results of a job into a folder here, verified', jobs)
    .addHelpText(
      'after',
      helpParagraph(
        'Without DIRECTORY: a folder that is called as the job. A value is value.json there, ' +
          'what partitions made INDEX/NAME. What is there whole stays; the same command goes on.',
      ),
    )
    .action((job: string, directory: string | undefined, _flags, command: Command) =>
      act(command, (context) => getJob(context, job, directory)),
    );
  add('spec <job>', 'the specification that a job was made from', jobs).action(
    (job: string, _flags, command: Command) => act(command, (context) => showSpec(context, job)),
  );
  add('cancel <job>', 'end a job', jobs).action((job: string, _flags, command: Command) =>
    act(command, (context) => cancelJob(context, job)),
  );
  add('retry <job>', 'try the failed partitions again', jobs).action(
    (job: string, _flags, command: Command) => act(command, (context) => retryJob(context, job)),
  );
  add('rm <job>', 'remove a finished job and its results', jobs)
    .option('--yes', 'do not ask', false)
    .action((job: string, flags: { yes: boolean }, command: Command) =>
      act(command, (context) => removeJob(context, job, flags.yes)),
    );
  add('schema', 'print the JSON Schema of specifications', jobs).action(() =>
    io.out(`${JSON.stringify(jobJsonSchema(), null, 2)}\n`),
  );
  add('templates [name]', 'specifications of gangs that come with Covey, or print one', jobs).action(
    (name: string | undefined, _flags, command: Command) =>
      name === undefined ? listTemplates(io, options(command).json) : printTemplate(io, name),
  );
};

function jobOf({ api }: CommandContext, job: string): Promise<JobView> {
  return api.call('job', { params: { job } });
}

export async function listJobs(
  { api, io, json, style, width }: CommandContext,
  flags: { readonly status?: string; readonly before?: string; readonly limit: number },
): Promise<void> {
  const query = {
    limit: String(flags.limit),
    ...(flags.status === undefined ? {} : { status: flags.status }),
    ...(flags.before === undefined ? {} : { before: flags.before }),
  };
  const answer = await api.call('jobs', { query });
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.jobs.length === 0) {
    return io.out(
      flags.status !== undefined
        ? `No job is ${flags.status}.\n`
        : flags.before !== undefined
          ? 'There are no older ones.\n'
          : 'There are no jobs. "covey run --help" shows how to start one.\n',
    );
  }
  const now = io.now();
  const cancelled: Column<JobSummary>[] = answer.jobs.some(({ partitions }) => partitions.cancelled > 0)
    ? [
        {
          header: 'CANCELLED',
          value: ({ partitions }) => String(partitions.cancelled || ''),
          align: 'right',
        },
      ]
    : [];
  io.out(
    renderTable<JobSummary>(
      [
        { header: 'NAME', value: (job) => job.name, shrinkTo: 12 },
        { header: 'KIND', value: (job) => job.kind },
        { header: 'STATUS', value: (job) => job.status, paint: (text, job) => jobStyle(style, job)(text) },
        { header: 'DONE', value: percentDone, align: 'right' },
        {
          header: 'PARTS',
          value: ({ partitions }) => `${partitions.done}/${partitions.total}`,
          align: 'right',
        },
        { header: 'FAILED', value: ({ partitions }) => String(partitions.failed || ''), align: 'right' },
        ...cancelled,
        { header: 'TIME', value: (job) => timeText(jobMs(job, now)), align: 'right' },
        { header: 'ID', value: (job) => job.id },
      ],
      answer.jobs,
      width,
    ),
  );
  const last = answer.jobs.at(-1);
  if (answer.more && last) {
    const others = answer.total - answer.jobs.length;
    io.out(`\n${plural(others, 'older one')}: covey jobs list --before ${last.id}\n`);
  }
}

function timeText(ms: number | null): string {
  return ms === null ? '' : duration(ms);
}

export async function showJob(context: CommandContext, ref: string): Promise<void> {
  const job = await jobOf(context, ref);
  const { io, json, width } = context;
  if (json) return io.out(`${JSON.stringify(job)}\n`);
  const now = io.now();
  const ms = jobMs(job, now);
  const done = percentDone(job);
  io.out(
    renderFields([
      ['Name', job.name],
      ['Id', job.id],
      ['Kind', job.kind],
      ['Status', job.status],
      ['Created', new Date(job.createdAt).toISOString()],
      [isFinished(job) ? 'Took' : 'Running for', ms === null ? null : duration(ms)],
      ['Progress', `${done === '' ? '' : `${done}, `}${unitsText(job)}`],
      ['Partitions', partitionsText(job)],
      ['Distribution', job.distribution],
      ['Speed', job.unitsPerS === null ? null : `${amount(job.unitsPerS)} ${job.units.unit}/s`],
      ['Left', leftText(job)],
    ]),
  );
  if (job.error) io.out(`${wrap(`Error: ${describeError(job.error).trimEnd()}`, width).join('\n')}\n`);
  for (const note of job.notes) io.out(`${wrap(`Note: ${printable(note)}`, width).join('\n')}\n`);
  for (const note of resultNotes(job)) io.out(`${wrap(`Note: ${note}`, width).join('\n')}\n`);
  if (job.shares.length > 0) io.out(`\n${sharesTable(job, width)}`);
  const result = resultText(job, width);
  if (result !== '') io.out(`\n${result}`);
}

/** What each machine does; below it why some do nothing. */
export function sharesTable(job: JobView, width: number): string {
  const table = renderTable<ShareView>(
    [
      { header: 'MACHINE', value: (share) => share.nodeName, shrinkTo: 10 },
      {
        header: 'SHARE',
        value: ({ targetPercent }) => (targetPercent === null ? '' : percent(targetPercent)),
        align: 'right',
      },
      { header: 'DONE', value: (share) => percent(share.donePercent), align: 'right' },
      {
        header: job.units.unit.toUpperCase(),
        value: (share) => amount(share.doneUnits),
        align: 'right',
      },
      { header: 'RUNNING', value: (share) => String(share.running), align: 'right' },
      {
        header: 'SPEED',
        value: ({ unitsPerS }) => (unitsPerS === null ? '' : `${amount(unitsPerS)}/s`),
        align: 'right',
      },
    ],
    job.shares,
    width,
  );
  const idle = job.shares.flatMap(({ nodeName, whyNot }) =>
    whyNot === null ? [] : wrap(`${printable(nodeName)} gets nothing: ${printable(whyNot)}`, width),
  );
  return idle.length === 0 ? table : `${table}\n${idle.join('\n')}\n`;
}

async function showStats({ api, io, json }: CommandContext, job: string): Promise<void> {
  const stats = await api.call('jobStats', { params: { job } });
  if (json) return io.out(`${JSON.stringify(stats)}\n`);
  const { partitionMs } = stats;
  const tasks = Object.entries(stats.tasks).map(([outcome, count]) => `${count} ${outcome}`);
  io.out(
    renderFields([
      ['Job', stats.jobId],
      ['Time', duration(stats.wallMs)],
      ['CPU time', stats.cpuMs === null ? 'not known' : duration(stats.cpuMs)],
      ['Attempts', tasks.join(', ') || 'none'],
      [
        'Per partition',
        partitionMs &&
          `half within ${duration(partitionMs.p50)}, 90% ${duration(partitionMs.p90)}, ` +
            `99% ${duration(partitionMs.p99)}, longest ${duration(partitionMs.max)}`,
      ],
      ['Inputs staged', bytes(stats.stagedBytes)],
      ['Peak memory', stats.peakBytes === null ? 'not known' : bytes(stats.peakBytes)],
    ]),
  );
}

async function listPartitions(
  { api, io, json, style, width }: CommandContext,
  job: string,
  { status, from, limit }: PartitionFlags,
): Promise<void> {
  const query = {
    from: String(from),
    limit: String(limit),
    ...(status === undefined ? {} : { status }),
  };
  const answer = await api.call('jobPartitions', { params: { job }, query });
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  const { partitions, total } = answer;
  if (partitions.length === 0) {
    return io.out(total === 0 ? 'It has no partitions yet.\n' : 'None of its partitions is like that.\n');
  }
  const now = io.now();
  io.out(
    renderTable<PartitionView>(
      [
        { header: 'INDEX', value: (part) => String(part.index), align: 'right' },
        { header: 'RANGE', value: ({ range }) => (range ? `${range.from}-${range.to}` : '') },
        {
          header: 'STATUS',
          value: (part) => part.status,
          paint: (text, part) => partitionStyle(style, part)(text),
        },
        {
          header: 'DONE',
          value: (part) => percent(part.status === 'done' ? 100 : part.progress * 100),
          align: 'right',
        },
        { header: 'TRIES', value: (part) => String(part.attempts), align: 'right' },
        { header: 'MACHINE', value: (part) => part.nodeName ?? '', shrinkTo: 8 },
        {
          header: 'TIME',
          value: ({ startedAt, finishedAt }) =>
            startedAt === null ? '' : duration(Math.max(0, (finishedAt ?? now) - startedAt)),
          align: 'right',
        },
        { header: 'PROBLEM', value: (part) => part.error?.message ?? '', shrinkTo: 10 },
      ],
      partitions,
      width,
    ),
  );
  const last = partitions.at(-1)?.index ?? 0;
  if (partitions.length === limit && last + 1 < total) {
    io.out(`\nThere are ${total}; the next ones: --from ${last + 1}.\n`);
  }
}

async function getJob(context: CommandContext, ref: string, directory: string | undefined): Promise<void> {
  const { io, json } = context;
  const job = await jobOf(context, ref);
  const { directory: root, results } = await interruptible(
    context,
    (signal) => getResults(context, job, directory, signal),
    'Cancelled; the same command goes on from here.',
  );
  for (const note of resultNotes(job)) io.err(`${note}\n`);
  if (json) return io.out(`${JSON.stringify({ job: job.id, directory: root, results })}\n`);
  const here = results.filter(({ wasHere }) => wasHere).length;
  const size = bytes(results.reduce((sum, one) => sum + one.bytes, 0));
  const [only] = results;
  const what =
    only !== undefined && results.length === 1
      ? `The result (${size}) is at ${printable(only.path)}`
      : `${plural(results.length, 'result')} (${size}) are in ${printable(root)}`;
  const before = here === 0 ? '' : here === results.length ? ', as before' : `, ${here} of them as before`;
  tell(io, `${what}${before}.\n`);
}

async function showSpec({ api, io }: CommandContext, job: string): Promise<void> {
  const spec = await api.call('jobSpec', { params: { job } });
  io.out(`${JSON.stringify(spec, null, 2)}\n`);
}

async function cancelJob({ api, io, json }: CommandContext, job: string): Promise<void> {
  const view = await api.call('cancelJob', { params: { job } });
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  tell(io, `${jobName(view)} ${view.status === 'cancelled' ? 'is cancelled' : 'is being cancelled'}.\n`);
}

async function retryJob({ api, io, json }: CommandContext, job: string): Promise<void> {
  const view = await api.call('retryJob', { params: { job } });
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  tell(io, `${jobName(view)} is tried again.\nWait for it with "covey jobs wait ${view.id}".\n`);
}

/** Results go with it, so it asks once. */
async function removeJob(context: CommandContext, ref: string, yes: boolean): Promise<void> {
  const { api, io, json } = context;
  const job = await jobOf(context, ref);
  if (!yes) {
    const answer = await io.ask(`Remove ${jobName(job)} and its results? [y/N] `);
    if (answer === null) throw new UsageError('Removing a job must be confirmed.', 'Add --yes.');
    if (!/^y(es)?$/i.test(answer.trim())) {
      io.err('Nothing was changed.\n');
      throw new Exit(exitCodes.failed);
    }
  }
  const answer = await api.call('removeJob', { params: { job: job.id } });
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  tell(io, `${jobName(job)} is removed.\n`);
}
