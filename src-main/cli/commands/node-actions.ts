import type { Command } from 'commander';
import { renameBodySchema } from '#shared/api/dashboard.ts';
import { parseSeconds } from '../arguments.ts';
import { tell, type CommandContext } from '../context.ts';
import { Exit, UsageError, exitCodes } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { duration, plural, printable } from '../text.ts';

export const addNodeActionCommands: AddCommands = ({ add, act }) => {
  add('drain <node>', 'give a machine no new work and let it finish')
    .option('--deadline <seconds>', 'time for running requests (default: 600)', parseSeconds)
    .action((node: string, flags: { deadline?: number }, command: Command) =>
      act(command, (context) => drainNode(context, node, flags.deadline)),
    );
  add('pause <node>', 'give a machine no new work; what runs there goes on').action(
    (node: string, _flags, command: Command) => act(command, (context) => pauseNode(context, node)),
  );
  add('resume <node>', 'give a drained or paused machine work again').action(
    (node: string, _flags, command: Command) => act(command, (context) => resumeNode(context, node)),
  );
  add('rename <node> <name>', 'give a machine another name in the covey').action(
    (node: string, name: string, _flags, command: Command) =>
      act(command, (context) => renameNode(context, node, name)),
  );
  add('remove <node>', 'remove a machine from the covey')
    .option('--yes', 'do not ask', false)
    .action((node: string, flags: { yes: boolean }, command: Command) =>
      act(command, (context) => removeNode(context, node, flags.yes)),
    );
};

export async function drainNode(
  { api, io, json }: CommandContext,
  ref: string,
  deadlineS: number | undefined,
): Promise<void> {
  const body = deadlineS === undefined ? {} : { deadlineMs: Math.round(deadlineS * 1_000) };
  const node = await api.call('drain', { params: { node: ref }, body });
  if (json) return io.out(`${JSON.stringify(node)}\n`);
  const leftMs = Math.max(0, (node.drain?.deadlineAt ?? 0) - io.now());
  const name = printable(node.name);
  tell(
    io,
    node.drain?.completedAt != null
      ? `${name} is drained: nothing runs there. Undo with "covey resume ${name}".\n`
      : `${name} gets no new work; what runs there may finish within ${duration(leftMs)}.\n` +
          `Watch it with "covey nodes", undo it with "covey resume ${name}".\n`,
  );
}

async function pauseNode({ api, io, json }: CommandContext, ref: string): Promise<void> {
  const node = await api.call('pause', { params: { node: ref } });
  if (json) return io.out(`${JSON.stringify(node)}\n`);
  const name = printable(node.name);
  const running = node.deployments.length;
  tell(
    io,
    `${name} is paused: it gets no new work` +
      (running === 0
        ? '.\n'
        : `; ${plural(running, 'model')} that it works for stay${running === 1 ? 's' : ''}.\n`) +
      `Undo it with "covey resume ${name}".\n`,
  );
}

async function renameNode({ api, io, json }: CommandContext, ref: string, name: string): Promise<void> {
  const body = renameBodySchema.safeParse({ name });
  if (!body.success) {
    const [issue] = body.error.issues;
    throw new UsageError(`The name ${issue?.message}, got "${printable(name)}".`);
  }
  // For the sentence only: a script that renames twice gets the same answer twice.
  const before = json ? null : await api.call('node', { params: { node: ref } });
  const node = await api.call('renameNode', { params: { node: before?.id ?? ref }, body: body.data });
  if (json) return io.out(`${JSON.stringify(node)}\n`);
  tell(
    io,
    before?.name === node.name
      ? `It is called ${printable(node.name)} already.\n`
      : `${printable(before?.name ?? ref)} is called ${printable(node.name)} now.\n`,
  );
}

export async function resumeNode({ api, io, json }: CommandContext, ref: string): Promise<void> {
  const node = await api.call('resume', { params: { node: ref } });
  if (json) return io.out(`${JSON.stringify(node)}\n`);
  tell(
    io,
    node.eligible
      ? `${printable(node.name)} takes work again.\n`
      : `${printable(node.name)} is no longer held back, but gets no work: ${printable(node.ineligibleReasons.join('; '))}.\n`,
  );
}

/** Removing cannot be undone (the machine must be invited again), so it asks once. */
export async function removeNode(
  { api, io, json }: CommandContext,
  ref: string,
  yes: boolean,
): Promise<void> {
  const node = await api.call('node', { params: { node: ref } });
  const name = printable(node.name);
  if (!yes) {
    const answer = await io.ask(
      `Remove ${name} (${node.id.slice(0, 12)})? It must be invited again to come back. [y/N] `,
    );
    if (answer === null) throw new UsageError('Removing a machine must be confirmed.', 'Add --yes.');
    if (!/^y(es)?$/i.test(answer.trim())) {
      io.err('Nothing was changed.\n');
      throw new Exit(exitCodes.failed);
    }
  }
  const answer = await api.call('removeNode', { params: { node: node.id } });
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  tell(io, `${name} is removed: its key is no longer accepted.\n`);
}
