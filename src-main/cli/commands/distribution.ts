import type { Command } from 'commander';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { JobView } from '#shared/domain/job.ts';
import { CoveyError } from '#shared/errors.ts';
import { parseSplit } from '../arguments.ts';
import { tell, type CommandContext } from '../context.ts';
import { UsageError } from '../failure.ts';
import { jobName } from '../job-wait.ts';
import type { AddCommands } from '../registry.ts';
import { suggest } from '../suggest.ts';
import { printable } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';
import { stagesTable } from './deployments.ts';
import { sharesTable } from './jobs.ts';

/** Which machine does what part: of a job, changeable while it runs, or of a loaded model, as it was loaded. */
export const addDistributionCommands: AddCommands = ({ program, add, act }) => {
  const distribution = add('distribution [id]', 'which machine does what part of a job or model', program)
    .addHelpText('after', '\nWith the id or name of a job or model alone it does "show".')
    // More words are no id: a command was meant.
    .allowExcessArguments(true)
    .action((id: string | undefined, _flags, command: Command) => {
      if (id === undefined) return command.help({ error: true });
      if (command.args.length > 1) throw notOneOf(id, command);
      return act(command, (context) => showDistribution(context, id));
    });
  watchOption(add('show <id>', "a job's or a loaded model's shares", distribution)).action(
    (id: string, flags: WatchFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => showDistribution(context, id)),
      ),
  );
  add('auto <job>', "shares by the machines' measured speed", distribution).action(
    (job: string, _flags, command: Command) => act(command, (context) => setDistribution(context, job, null)),
  );
  add('set <job> <shares>', 'shares by hand, as in desk=60,attic=40', distribution).action(
    (job: string, text: string, _flags, command: Command) => {
      const shares = sharesOf(text);
      return act(command, (context) => setDistribution(context, job, shares));
    },
  );
};

function notOneOf(word: string, { commands }: Command): UsageError {
  const names = commands.map((one) => one.name());
  const near = suggest(word, names);
  return new UsageError(
    `"${word}" is no command of distribution.`,
    near === null ? `There are: ${names.join(', ')}.` : `Did you mean "covey distribution ${near}"?`,
  );
}

function sharesOf(text: string): Record<string, number> {
  try {
    return parseSplit(text);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

async function showDistribution(context: CommandContext, id: string): Promise<void> {
  const { io, json, width } = context;
  const found = await jobOrDeployment(context, id);
  if (found.kind === 'deployment') {
    const { deployment } = found;
    if (json) return io.out(`${JSON.stringify(deployment)}\n`);
    tell(io, `${printable(deployment.model)} (${deployment.id}), as it was loaded:\n\n`);
    return io.out(deployment.stages.length > 0 ? stagesTable(context, deployment) : 'Nothing of it runs.\n');
  }
  const { job } = found;
  if (json) return io.out(`${JSON.stringify(job)}\n`);
  const how = job.distribution === 'auto' ? 'by speed' : 'by hand';
  tell(io, `${jobName(job)} is ${job.status}, shares ${how}:\n\n`);
  io.out(job.shares.length > 0 ? sharesTable(job, width) : 'No machine has a share of it yet.\n');
}

async function setDistribution(
  context: CommandContext,
  ref: string,
  shares: Readonly<Record<string, number>> | null,
): Promise<void> {
  const { api, io, json, width } = context;
  const body =
    shares === null
      ? ({ mode: 'auto' } as const)
      : {
          mode: 'manual' as const,
          shares: Object.entries(shares).map(([node, percent]) => ({ node, percent })),
        };
  const found = await jobOrDeployment(context, ref);
  if (found.kind === 'deployment') {
    const { model } = found.deployment;
    throw new UsageError(
      `${printable(model)} is a loaded model: its layers stay where they were loaded.`,
      `Unload it, then load it with other shares: covey load ${printable(model)} --split desk=60,attic=40`,
    );
  }
  const job = await api.call('setDistribution', { params: { job: found.job.id }, body });
  if (json) return io.out(`${JSON.stringify(job)}\n`);
  tell(io, `${jobName(job)} has shares ${shares === null ? 'by speed' : 'by hand'} from now on.\n`);
  if (job.shares.length > 0) io.out(`\n${sharesTable(job, width)}`);
}

type Found =
  | { readonly kind: 'job'; readonly job: JobView }
  | { readonly kind: 'deployment'; readonly deployment: DeploymentView };

/** An id says by its first letter what it is; a name may be either, and is a job first. */
async function jobOrDeployment({ api }: CommandContext, ref: string): Promise<Found> {
  if (!/^d-[0-9a-z]{8}$/.test(ref)) {
    try {
      return { kind: 'job', job: await api.call('job', { params: { job: ref } }) };
    } catch (error) {
      if (!(error instanceof CoveyError) || error.code !== 'job_not_found' || /^j-[0-9a-z]{8}$/.test(ref)) {
        throw error;
      }
      const { deployments } = await api.call('deployments');
      const deployment = deployments.find((one) => one.model === ref);
      if (deployment === undefined) {
        const message = `There is neither a job nor a loaded model ${JSON.stringify(ref.slice(0, 100))}.`;
        throw new CoveyError('job_not_found', message, { field: 'id' });
      }
      return { kind: 'deployment', deployment };
    }
  }
  return { kind: 'deployment', deployment: await api.call('deployment', { params: { id: ref } }) };
}
