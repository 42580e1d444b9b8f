import type { Command } from 'commander';
import type { KeyView } from '#shared/api/access.ts';
import { CoveyError } from '#shared/errors.ts';
import { createApiClient } from '../api-client.ts';
import type { CommandContext } from '../context.ts';
import { UsageError } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { forgetSession, readSession, saveSession } from '../saved-session.ts';
import { renderTable } from '../table.ts';
import { duration, printable } from '../text.ts';

export const addAccessCommands: AddCommands = ({ add, act, group }) => {
  add('open [page]', 'print a one-time link for a browser: to the dashboard, or to the page of this machine')
    .addHelpText('after', '\nPages: dashboard, machine. Without a login here, a worker opens its own page.')
    .action((page: string | undefined, _flags, command: Command) =>
      act(command, (context) => printLink(context, page)),
    );
  add('login', 'log in at the controller, with a code from "covey open" there').action(
    (_flags, command: Command) => act(command, login),
  );
  add('logout', 'end that login').action((_flags, command: Command) => act(command, logout));

  const keys = group('keys', 'API keys for apps and other machines', listKeys);
  add('list', 'list the keys', keys).action((_flags, command: Command) => act(command, listKeys));
  add('create <name>', 'make a key and print it, this once', keys)
    .option('--admin', 'may do all that you may, not only call models', false)
    .action((name: string, flags: { admin: boolean }, command: Command) =>
      act(command, (context) => createKey(context, name, flags.admin)),
    );
  add('revoke <id>', 'make a key worthless, by id or name', keys).action(
    (id: string, _flags, command: Command) => act(command, (context) => revokeKey(context, id)),
  );
};

async function printLink({ api, io, json }: CommandContext, page: string | undefined): Promise<void> {
  if (page !== undefined && page !== 'dashboard' && page !== 'machine') {
    throw new UsageError(`There is no page "${printable(page)}".`, 'Pages are dashboard and machine.');
  }
  const dashboard = page === 'machine' ? null : await dashboardCode(api, page === undefined);
  const made = dashboard ?? (await api.call('machineCode'));
  // Under the address that works here: the controller knows its own alone.
  const view = { ...made, url: `${api.baseUrl}/${dashboard ? '' : 'machine'}#code=${made.code}` };
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  io.out(`${view.url}\n`);
  const elsewhere = dashboard ? `, or type ${view.code} where another one asks for a code` : '';
  io.err(
    `${dashboard ? '' : 'The page of this machine itself. '}Open it in a browser on this machine${elsewhere}.\n` +
      `It works once, for ${duration(view.expiresAt - io.now())}.\n`,
  );
}

/** null: nobody here may open the dashboard, and something else will do. */
async function dashboardCode(api: CommandContext['api'], otherwise: boolean) {
  try {
    return await api.call('loginCode');
  } catch (error) {
    const { code } = CoveyError.from(error);
    if (otherwise && (code === 'admin_required' || code === 'not_a_member')) return null;
    throw error;
  }
}

async function login({ api, io, json, dataDirectory }: CommandContext): Promise<void> {
  const line = await io.secretLine('Code (from "covey open" on the controller): ');
  // The whole link will do as well.
  const code = line?.trim().replace(/^.*#code=/, '') ?? '';
  if (code === '') throw new UsageError('No code was given.', 'Run "covey open" on the controller for one.');
  const session = await api.call('redeem', { body: { code } });
  await saveSession(dataDirectory, session);
  if (json) return io.out(`${JSON.stringify({ role: session.role, expiresAt: session.expiresAt })}\n`);
  io.out(`Logged in for ${duration(session.expiresAt - io.now())}.\n`);
}

async function logout({ api, io, json, dataDirectory }: CommandContext): Promise<void> {
  const session = readSession(dataDirectory, io.now());
  await forgetSession(dataDirectory);
  const say = (loggedOut: boolean, sentence: string): void =>
    io.out(json ? `${JSON.stringify({ loggedOut })}\n` : `${sentence}\n`);
  if (session === null) return say(false, 'Nobody is logged in here.');
  const own = createApiClient(api.baseUrl, { token: session.token });
  try {
    await own.call('logout');
    say(true, 'Logged out.');
  } catch (error) {
    const { code, message } = CoveyError.from(error);
    if (code === 'token_invalid') return say(true, 'Logged out: the login had ended already.');
    io.err(`The controller could not be told (${printable(message)}); the login ends there by itself.\n`);
    say(true, 'Logged out here.');
  } finally {
    own.close();
  }
}

async function listKeys({ api, io, json, width }: CommandContext): Promise<void> {
  const answer = await api.call('keys');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.keys.length === 0) {
    return io.out('There are no API keys. "covey keys create NAME" makes one.\n');
  }
  const ago = (at: number | null): string => (at === null ? 'never' : `${duration(io.now() - at)} ago`);
  io.out(
    renderTable<KeyView>(
      [
        { header: 'NAME', value: (key) => key.name, shrinkTo: 12 },
        { header: 'MAY', value: (key) => (key.scope === 'admin' ? 'everything' : 'call models') },
        { header: 'MADE', value: (key) => ago(key.createdAt) },
        { header: 'LAST USED', value: (key) => ago(key.lastUsedAt) },
        { header: 'ID', value: (key) => key.id },
      ],
      answer.keys,
      width,
    ),
  );
}

async function createKey({ api, io, json }: CommandContext, name: string, admin: boolean): Promise<void> {
  const made = await api.call('createKey', { body: { name, scope: admin ? 'admin' : 'inference' } });
  if (json) return io.out(`${JSON.stringify(made)}\n`);
  // Only the key on stdout, for those who keep it in a file.
  io.out(`${made.key}\n`);
  io.err(
    `This is the key ${printable(made.name)}; it is not shown again. Revoke it with "covey keys revoke ${made.id}".\n`,
  );
}

async function revokeKey({ api, io, json }: CommandContext, ref: string): Promise<void> {
  const { keys } = await api.call('keys');
  const key = keys.find(({ id }) => id === ref) ?? keys.find(({ name }) => name === ref);
  const answer = await api.call('revokeKey', { params: { id: key?.id ?? ref } });
  io.out(json ? `${JSON.stringify(answer)}\n` : `The key ${printable(key?.name ?? ref)} is revoked.\n`);
}
