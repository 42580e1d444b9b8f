import { resolve } from 'node:path';
import type { Command } from 'commander';
import { createBackup } from '../../nodejs/backup/create-backup.ts';
import { requireStrong } from '../../nodejs/backup/format.ts';
import { restoreBackup } from '../../nodejs/backup/restore-backup.ts';
import { identityUse, newIdentity, type IdentityUse } from '../../nodejs/identity/new-identity.ts';
import { createLogger } from '../../nodejs/logging.ts';
import { productVersion } from '../../nodejs/version.ts';
import type { CommandContext } from '../context.ts';
import { Exit, UsageError, exitCodes } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { bytes, printable, wrap } from '../text.ts';

/** These work on this machine's data directory itself: no node has to run, and for most of them none may. */
export const addIdentityCommands: AddCommands = ({ add, act, group }) => {
  add('backup <file>', "save this machine's identity and state, encrypted")
    .option('--force', 'replace the file', false)
    .action((file: string, flags: { force: boolean }, command: Command) =>
      act(command, (context) => backup(context, file, flags.force)),
    );
  add('restore <file>', 'make this machine the one that a backup was made of')
    .option('--force', 'move an identity that is here aside', false)
    .action((file: string, flags: { force: boolean }, command: Command) =>
      act(command, (context) => restore(context, file, flags.force)),
    );
  const identity = group('identity', "show this machine's identity", showIdentity);
  add('show', 'show it', identity).action((_flags, command: Command) => act(command, showIdentity));
  add('new', 'make this machine another one, for a copied disk or data directory', identity)
    .option('--yes', 'do not ask', false)
    .action((flags: { yes: boolean }, command: Command) =>
      act(command, (context) => replaceIdentity(context, flags.yes)),
    );
};

const logger = createLogger({ level: 'warn', format: 'text' });

async function backup(
  { io, dataDirectory, json, width }: CommandContext,
  file: string,
  force: boolean,
): Promise<void> {
  const passphrase = await askPassphrase(io, 'Passphrase for the backup: ');
  // Before it is typed a second time.
  requireStrong(passphrase);
  if (io.errIsTty) {
    const again = await io.secretLine('The same again: ');
    if (again !== null && again !== passphrase) {
      throw new UsageError('The two passphrases differ. Nothing was written.');
    }
  }
  const report = await createBackup({
    dataDirectory,
    file: resolve(io.workingDirectory, file),
    passphrase,
    force,
    version: productVersion,
    now: io.now(),
    logger,
    copyDatabase: (source, destination) => io.copyDatabase(source, destination),
  });
  if (json) return io.out(`${JSON.stringify(report)}\n`);
  say(io, width, [
    `Machine ${report.nodeId.slice(0, 12)} is saved (${bytes(report.bytes)}) in`,
    { path: report.file },
    'Whoever has the file and the passphrase can be this machine. Without the passphrase it is lost.',
  ]);
}

async function restore(
  { io, dataDirectory, json, width }: CommandContext,
  file: string,
  force: boolean,
): Promise<void> {
  const passphrase = await askPassphrase(io, 'Passphrase of the backup: ');
  const report = await restoreBackup({
    dataDirectory,
    file: resolve(io.workingDirectory, file),
    passphrase,
    force,
    now: io.now(),
    logger,
  });
  if (json) return io.out(`${JSON.stringify(report)}\n`);
  const when = new Date(report.createdAt).toISOString().slice(0, 16).replace('T', ' ');
  say(io, width, [
    `Machine ${report.nodeId.slice(0, 12)}, as it was at ${when} UTC, is in`,
    { path: report.dataDirectory },
    ...(report.movedTo === null ? [] : ['What was there before is in', { path: report.movedTo }]),
    'Start Covey here, and nowhere else with the same identity.',
  ]);
}

async function showIdentity({ io, dataDirectory, json }: CommandContext): Promise<void> {
  const { identity, isController, controllerName } = await identityUse(dataDirectory, logger);
  const { nodeId, createdAt } = identity;
  if (json) {
    return io.out(`${JSON.stringify({ nodeId, createdAt, dataDirectory, isController, controllerName })}\n`);
  }
  io.out(
    `node id    ${nodeId}\n` +
      `created    ${new Date(createdAt).toISOString().slice(0, 16).replace('T', ' ')} UTC\n` +
      `directory  ${printable(dataDirectory)}\n` +
      (controllerName === null ? '' : `member of  ${printable(controllerName)}\n`),
  );
}

async function replaceIdentity(
  { io, dataDirectory, json, width }: CommandContext,
  yes: boolean,
): Promise<void> {
  let isController = false;
  const report = await newIdentity({
    dataDirectory,
    logger,
    now: () => io.now(),
    async confirm(use) {
      ({ isController } = use);
      if (yes) return true;
      const answer = await io.ask(`${consequences(use)}\nGo on? [y/N] `);
      if (answer === null) throw new UsageError('A new identity must be confirmed.', 'Add --yes.');
      return /^y(es)?$/i.test(answer.trim());
    },
  });
  if (!report) {
    io.err('Nothing was changed.\n');
    throw new Exit(exitCodes.failed);
  }
  if (json) return io.out(`${JSON.stringify(report)}\n`);
  say(io, width, [
    `This machine was ${report.before.slice(0, 12)} and is ${report.nodeId.slice(0, 12)} now.`,
    'The old key and what went with it are in',
    { path: report.movedTo },
    'Delete that when the other machine runs as it should.',
    isController
      ? 'Start Covey, then add its machines ("covey join" on each of them).'
      : 'Start Covey, then add this machine again ("covey join" here, or "covey invite" on the controller).',
  ]);
}

/** Each sentence on lines of its own, and each path, however long, on one. */
function say(io: CommandContext['io'], width: number, parts: readonly (string | { path: string })[]): void {
  const lines = parts.flatMap((part) =>
    typeof part === 'string' ? wrap(part, width) : [`  ${printable(part.path)}`],
  );
  io.out(`${lines.join('\n')}\n`);
}

function consequences({ identity, isController, controllerName }: IdentityUse): string {
  const about = `This machine (${identity.nodeId.slice(0, 12)}) gets a new identity and is a stranger to all others then.`;
  if (isController)
    return `${about} It is a controller: its machines, API keys, deployments and events are moved aside, and every worker must be added again.`;
  return controllerName === null
    ? about
    : `${about} It must be added again to the covey of ${printable(controllerName)}.`;
}

async function askPassphrase(io: CommandContext['io'], question: string): Promise<string> {
  const passphrase = await io.secretLine(question);
  if (passphrase) return passphrase;
  throw new UsageError('A passphrase is needed.', 'Type it, or give it as the first line of standard input.');
}
