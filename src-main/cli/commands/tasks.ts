import type { Command } from 'commander';
import type { TaskView } from '#shared/domain/job.ts';
import { parseWhole } from '../arguments.ts';
import type { CommandContext } from '../context.ts';
import { taskStyle } from '../job-text.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable } from '../table.ts';
import { duration } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';

interface TaskFlags extends WatchFlags {
  readonly job?: string;
  readonly node?: string;
  readonly partition?: number;
  readonly limit: number;
}

export const addTaskCommands: AddCommands = ({ add, act }) => {
  watchOption(add('tasks', 'attempts at partitions, newest first'))
    .option('--job <job>', 'of one job')
    .option('--node <node>', 'on one machine')
    .option('--partition <index>', 'at one partition', parseWhole(0, 1_000_000_000))
    .option('--limit <n>', 'at most so many', parseWhole(1, 1_000), 200)
    .action((flags: TaskFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => listTasks(context, flags)),
      ),
    );
};

async function listTasks(
  { api, io, json, style, width }: CommandContext,
  { job, node, partition, limit }: TaskFlags,
): Promise<void> {
  // The route wants the id; people may name a job.
  const id = job === undefined ? undefined : (await api.call('job', { params: { job } })).id;
  const query = {
    limit: String(limit),
    ...(id === undefined ? {} : { job: id }),
    ...(node === undefined ? {} : { node }),
    ...(partition === undefined ? {} : { index: String(partition) }),
  };
  const answer = await api.call('tasks', { query });
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.tasks.length === 0) {
    return io.out('There are no tasks. "covey run --help" shows how to start a job.\n');
  }
  const now = io.now();
  io.out(
    renderTable<TaskView>(
      [
        { header: 'TASK', value: (task) => task.id },
        { header: 'MACHINE', value: (task) => task.nodeName, shrinkTo: 8 },
        {
          header: 'OUTCOME',
          value: (task) => (task.speculative ? `${task.outcome}, copy` : task.outcome),
          paint: (text, task) => taskStyle(style, task)(text),
        },
        {
          header: 'TIME',
          value: ({ startedAt, endedAt }) =>
            startedAt === null ? '' : duration(Math.max(0, (endedAt ?? now) - startedAt)),
          align: 'right',
        },
        {
          header: 'EXIT',
          value: ({ exitCode }) => (exitCode === null ? '' : String(exitCode)),
          align: 'right',
        },
        { header: 'PROBLEM', value: (task) => task.error?.message ?? '', shrinkTo: 10 },
      ],
      answer.tasks,
      width,
    ),
  );
}
