import type { Command } from 'commander';
import type { LoadBody } from '#shared/api/schema.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import { CoveyError } from '#shared/errors.ts';
import { parseList, parseSplit, parseWhole } from '../arguments.ts';
import { tell, type CommandContext } from '../context.ts';
import { Exit, describeError, exitCodes } from '../failure.ts';
import { createLiveLine } from '../live-line.ts';
import { localPath } from '../local-path.ts';
import type { AddCommands } from '../registry.ts';
import { bytes, duration, percent, printable } from '../text.ts';
import { stagesTable } from './deployments.ts';
import { pullToLibrary } from './models.ts';

interface LoadFlags {
  readonly nodes?: string[];
  readonly split?: Record<string, number>;
  readonly leader?: string;
  readonly ctx?: number;
  readonly parallel?: number;
  readonly name?: string;
  readonly wait: boolean;
}

export const addLoadCommands: AddCommands = ({ add, act }) => {
  add('load <model>', 'load a model (a path on a machine, a library name, or hf:...)')
    .option('--nodes <a,b>', 'the machines to use', parseList)
    .option('--split <a=60,b=40>', 'share of the model by machine', parseSplit)
    .option('--leader <node>', 'the machine that has the file and answers')
    .option('--ctx <tokens>', 'context of each request', parseWhole(16, 16_777_216))
    .option('--parallel <n>', 'requests at once', parseWhole(1, 64))
    .option('--name <name>', "name for clients (default: the file's)")
    .option('--no-wait', 'do not wait until it is ready')
    .action((model: string, flags: LoadFlags, command: Command) =>
      act(command, (context) => loadModel(context, model, loadOptions(flags))),
    );
  add('unload <id>', 'unload a model, by id or name').action((id: string, _flags, command: Command) =>
    act(command, (context) => unloadModel(context, id)),
  );
  add('retry <id>', 'try again to load a model that failed').action((id: string, _flags, command: Command) =>
    act(command, (context) => retryModel(context, id)),
  );
};

function loadOptions(flags: LoadFlags): LoadOptions {
  return {
    nodes: flags.nodes,
    split: flags.split,
    leader: flags.leader,
    contextPerRequest: flags.ctx,
    parallel: flags.parallel,
    name: flags.name,
    wait: flags.wait,
  };
}

export interface LoadOptions {
  readonly nodes: readonly string[] | undefined;
  readonly split: Readonly<Record<string, number>> | undefined;
  readonly leader: string | undefined;
  readonly contextPerRequest: number | undefined;
  readonly parallel: number | undefined;
  readonly name: string | undefined;
  readonly wait: boolean;
}

const pollMs = 250;
/** How long a controller that restarts may be away. */
const awayMs = 30_000;
/** How long a deployment may wait for machines before the command stops watching. */
const waitingMs = 60_000;

/** Asks for the model and, unless told otherwise, watches until it is ready or has failed. */
export async function loadModel(context: CommandContext, model: string, options: LoadOptions): Promise<void> {
  const { api, io, json } = context;
  const startedAt = io.now();
  const source = model.startsWith('hf:')
    ? (await pullToLibrary(context, model, options.leader)).model
    : localPath(io, model);
  const accepted = await api.call('load', { body: loadBody(source, options), timeoutMs: 60_000 });
  if (!options.wait) {
    if (json) return io.out(`${JSON.stringify(accepted)}\n`);
    return tell(
      io,
      accepted.status === 'ready'
        ? `${printable(accepted.model)} is ready (${accepted.id}).\n`
        : `${printable(accepted.model)} loads as ${accepted.id}.\nWatch it with "covey deployments info ${accepted.id}".\n`,
    );
  }
  const ready = accepted.status === 'ready' ? accepted : await watchLoad(context, accepted);
  if (json) return io.out(`${JSON.stringify(ready)}\n`);
  const took =
    accepted.status === 'ready' ? 'was ready already' : `is ready after ${duration(io.now() - startedAt)}`;
  tell(io, `${printable(ready.model)} ${took} (${ready.id}).\n\n`);
  io.out(stagesTable(context, ready));
  tell(io, `\nEndpoint ${api.baseUrl}/v1, model name "${printable(ready.model)}".\n`);
}

function loadBody(model: string, options: LoadOptions): LoadBody {
  return {
    model,
    ...(options.nodes === undefined ? {} : { nodes: [...options.nodes] }),
    ...(options.split === undefined ? {} : { split: { ...options.split } }),
    ...(options.leader === undefined ? {} : { leader: options.leader }),
    ...(options.contextPerRequest === undefined ? {} : { contextPerRequest: options.contextPerRequest }),
    ...(options.parallel === undefined ? {} : { parallel: options.parallel }),
    ...(options.name === undefined ? {} : { name: options.name }),
  };
}

/** Resolves to the ready deployment; ends the command with the reason when it will not become ready. */
async function watchLoad(context: CommandContext, accepted: DeploymentView): Promise<DeploymentView> {
  const { api, io } = context;
  const live = createLiveLine(io);
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  let heardAt = io.now();
  let waitingSince: number | null = null;
  let current = accepted;
  try {
    for (;;) {
      if (current.status === 'ready') return current;
      if (current.status === 'failed') throw failed(context, current);
      if (current.status === 'unloading') throw gone(accepted);
      waitingSince = current.status === 'waiting' ? (waitingSince ?? io.now()) : null;
      if (waitingSince !== null && io.now() - waitingSince > waitingMs) throw stillWaiting(context, current);
      live.update(...progressText(current, io.now()));
      await io.sleep(pollMs, stop.signal);
      if (stop.signal.aborted) {
        live.end();
        io.err(
          `The load goes on without this command. See "covey deployments info ${accepted.id}"; ` +
            `"covey unload ${accepted.id}" ends it.\n`,
        );
        throw new Exit(exitCodes.interrupted);
      }
      try {
        current = await api.call('deployment', { params: { id: accepted.id }, timeoutMs: 10_000 });
        heardAt = io.now();
      } catch (error) {
        if (!(error instanceof CoveyError)) throw error;
        if (error.code === 'deployment_not_found') throw gone(accepted);
        if (!error.retryable || io.now() - heardAt > awayMs) throw error;
      }
    }
  } finally {
    live.end();
    removeListener();
  }
}

function failed({ io, json }: CommandContext, view: DeploymentView): CoveyError {
  const reason = view.reason ?? { code: 'engine_load_failed' as const, message: 'No reason was given.' };
  const error = CoveyError.fromBody({
    ...reason,
    message: `${view.model} could not be loaded: ${reason.message}`,
  });
  if (!json) {
    // Also which machine said what, when several did.
    for (const stage of view.stages) {
      if (stage.error && stage.error.message !== reason.message) {
        io.err(`${printable(stage.nodeName)}: ${describeError(stage.error)}`);
      }
    }
  }
  return error;
}

function gone(view: DeploymentView): CoveyError {
  return new CoveyError('unloaded', `${view.model} (${view.id}) was unloaded while it was being loaded.`);
}

function stillWaiting({ io }: CommandContext, view: DeploymentView): CoveyError {
  const next =
    view.nextAttemptAt === null
      ? ''
      : ` Next attempt in ${duration(Math.max(0, view.nextAttemptAt - io.now()))}.`;
  return new CoveyError(
    'not_ready',
    `${view.model} (${view.id}) still waits: ${view.reason?.message ?? 'no machine is free.'}${next} ` +
      `It goes on by itself; "covey unload ${view.id}" ends it.`,
  );
}

/** The step, and figures that change while it lasts. */
export function progressText(view: DeploymentView, now: number): [step: string, detail: string] {
  const model = printable(view.model);
  if (view.status === 'waiting')
    return [`${model} waits: ${printable(view.reason?.message ?? 'for machines')}`, ''];
  const progress = view.progress;
  const step = `${model}: ${printable(progress?.step ?? view.status)}`;
  const figures: string[] = [];
  if (progress?.percent != null && progress.percent > 0) figures.push(percent(progress.percent));
  if (progress?.doneBytes != null && progress.totalBytes != null) {
    figures.push(`${bytes(progress.doneBytes)} of ${bytes(progress.totalBytes)}`);
  }
  const spentMs = now - view.createdAt;
  if (progress?.percent != null && progress.percent >= 10 && progress.percent < 100 && spentMs > 3_000) {
    figures.push(`about ${duration((spentMs * (100 - progress.percent)) / progress.percent)} left`);
  }
  const stages = view.stages
    .filter((stage) => stage.phase !== null)
    .map((stage) => `${printable(stage.nodeName)} ${stage.phase}`);
  return [
    step,
    [figures.join(', '), stages.length > 0 ? `(${stages.join(', ')})` : ''].filter(Boolean).join(' '),
  ];
}

export async function unloadModel({ api, io, json }: CommandContext, ref: string): Promise<void> {
  const view = await api.call('unload', { params: { id: ref } });
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  tell(io, `${printable(view.model)} (${view.id}) is being unloaded.\n`);
}

export async function retryModel({ api, io, json }: CommandContext, ref: string): Promise<void> {
  const view = await api.call('retry', { params: { id: ref } });
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  const { id } = view;
  tell(
    io,
    `${printable(view.model)} (${id}) is tried again.\nWatch it with "covey deployments info ${id}".\n`,
  );
}
