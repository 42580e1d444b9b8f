import type { Command } from 'commander';
import type { ModelView, TransferView } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { tell, type CommandContext } from '../context.ts';
import { Exit, exitCodes } from '../failure.ts';
import { createLiveLine } from '../live-line.ts';
import { localPath } from '../local-path.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable } from '../table.ts';
import { bytes, duration, percent, printable } from '../text.ts';

export const addModelCommands: AddCommands = ({ add, act, group }) => {
  const models = group('models', "the models in the machines' libraries", listModels);
  add('list', 'list the models', models).action((_flags, command: Command) => act(command, listModels));
  add('import <path>', "copy a file of a machine into that machine's library")
    .requiredOption('--node <node>', 'the machine that has the file')
    .option('--name <name>', "name in the library (default: the file's)")
    .action((path: string, flags: { node: string; name?: string }, command: Command) =>
      act(command, (context) => importModel(context, path, flags.node, flags.name)),
    );
  add('pull <source>', "download hf:OWNER/REPO/FILE.gguf into a machine's library")
    .option('--node <node>', 'the machine (default: the one with most room)')
    .action((source: string, flags: { node?: string }, command: Command) =>
      act(command, (context) => pullModel(context, source, flags.node)),
    );
};

const pollMs = 250;
const awayMs = 30_000;

export async function listModels({ api, io, json, width }: CommandContext): Promise<void> {
  const answer = await api.call('models');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.models.length === 0) {
    return io.out(
      'No machine has a model in its library. Get one with\n' +
        '"covey pull hf:OWNER/REPO/FILE.gguf" or "covey import PATH --node NODE";\n' +
        '"covey load" also takes a path on a machine.\n',
    );
  }
  io.out(
    renderTable<ModelView>(
      [
        { header: 'NAME', value: (model) => model.name, shrinkTo: 16 },
        { header: 'SIZE', value: (model) => bytes(model.fileBytes), align: 'right' },
        { header: 'KIND', value: (model) => model.info?.architecture ?? '?', shrinkTo: 6 },
        { header: 'TYPE', value: (model) => model.info?.fileType ?? '?' },
        { header: 'LAYERS', value: (model) => String(model.info?.layerCount ?? '?'), align: 'right' },
        { header: 'CONTEXT', value: (model) => String(model.info?.contextLength ?? '?'), align: 'right' },
        { header: 'MACHINE', value: (model) => model.nodeName, shrinkTo: 8 },
      ],
      answer.models,
      width,
    ),
  );
}

export async function importModel(
  context: CommandContext,
  path: string,
  node: string,
  name: string | undefined,
): Promise<void> {
  const source = localPath(context.io, path);
  const body = { node, path: source, ...(name === undefined ? {} : { name }) };
  report(context, await watchTransfer(context, await context.api.call('importModel', { body })));
}

export async function pullModel(
  context: CommandContext,
  source: string,
  node: string | undefined,
): Promise<void> {
  report(context, (await pullToLibrary(context, source, node)).transfer);
}

/** Downloads into the library of a machine; resolves to the name there. */
export async function pullToLibrary(
  context: CommandContext,
  source: string,
  node: string | undefined,
): Promise<{ model: string; transfer: TransferView }> {
  const body = { source, ...(node === undefined ? {} : { node }) };
  const transfer = await watchTransfer(context, await context.api.call('pullModel', { body }));
  if (transfer.model === null)
    throw new CoveyError('internal_error', 'The download ended without a model name.');
  return { model: transfer.model, transfer };
}

function report({ io, json }: CommandContext, transfer: TransferView): void {
  if (json) return io.out(`${JSON.stringify(transfer)}\n`);
  const name = printable(transfer.model ?? transfer.source);
  tell(io, `${name} is in the library (${bytes(transfer.doneBytes)}). Load it with "covey load ${name}".\n`);
}

/** Resolves when it is done. Ctrl-C cancels it, since nobody else waits for it. */
async function watchTransfer({ api, io }: CommandContext, started: TransferView): Promise<TransferView> {
  const live = createLiveLine(io);
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  let current = started;
  let heardAt = io.now();
  try {
    while (current.status === 'running') {
      live.update(...transferText(current));
      await io.sleep(pollMs, stop.signal);
      if (stop.signal.aborted) {
        live.end();
        await api.call('cancelTransfer', { params: { id: started.id }, timeoutMs: 5_000 });
        io.err('Cancelled.\n');
        throw new Exit(exitCodes.interrupted);
      }
      try {
        current = await api.call('transfer', { params: { id: started.id }, timeoutMs: 10_000 });
        heardAt = io.now();
      } catch (error) {
        if (!(error instanceof CoveyError) || !error.retryable || io.now() - heardAt > awayMs) throw error;
      }
    }
  } finally {
    live.end();
    removeListener();
  }
  if (current.status === 'done') return current;
  if (current.error) throw CoveyError.fromBody(current.error);
  throw new CoveyError('cancelled', `The transfer of ${current.source} was cancelled.`);
}

export function transferText(transfer: TransferView): [step: string, detail: string] {
  const verb = transfer.kind === 'pull' ? 'Downloading' : 'Importing';
  const { doneBytes, totalBytes, bytesPerS } = transfer;
  const figures: string[] = [];
  if (totalBytes !== null && totalBytes > 0) figures.push(percent((doneBytes / totalBytes) * 100));
  if (doneBytes > 0)
    figures.push(totalBytes === null ? bytes(doneBytes) : `${bytes(doneBytes)} of ${bytes(totalBytes)}`);
  if (bytesPerS !== null && bytesPerS > 0) {
    figures.push(`${bytes(bytesPerS)}/s`);
    if (totalBytes !== null)
      figures.push(`about ${duration(((totalBytes - doneBytes) / bytesPerS) * 1_000)} left`);
  }
  return [`${verb} ${printable(transfer.source)}`, figures.join(', ')];
}
