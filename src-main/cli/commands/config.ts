import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import type { SettingsView } from '#shared/api/access.ts';
import { CoveyError } from '#shared/errors.ts';
import { exactSizeText } from '#shared/lib/size-text.ts';
import { defaultSettings } from '#shared/settings.ts';
import { sizeOf } from '../arguments.ts';
import type { CommandContext } from '../context.ts';
import { Exit, UsageError, exitCodes } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { suggest } from '../suggest.ts';
import { renderFields } from '../table.ts';
import { printable } from '../text.ts';

export const addConfigCommands: AddCommands = ({ add, act, group }) => {
  const config = group('config', "this machine's settings", (context) => showSettings(context));
  add('get [key]', 'print one setting, or all', config).action(
    (key: string | undefined, _flags, command: Command) =>
      act(command, (context) => showSettings(context, key)),
  );
  add('set <key> <value>', 'change a setting: it has effect at once', config).action(
    (key: string, value: string, _flags, command: Command) =>
      act(command, (context) => changeSetting(context, key, parseValue(key, value))),
  );
  add('unset <key>', 'use the default again', config).action((key: string, _flags, command: Command) =>
    act(command, (context) => changeSetting(context, key, null)),
  );
};

async function showSettings({ api, io, json }: CommandContext, key?: string): Promise<void> {
  const view = await api.call('settings');
  if (key !== undefined) {
    const value = valueOf(view.settings, key);
    return io.out(json ? `${JSON.stringify(value)}\n` : `${shownSetting(key, value)}\n`);
  }
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  io.out(
    renderFields([
      ...leaves(view.settings).map(([name, value]): [string, string] => [name, shownSetting(name, value)]),
      ['kept in', printable(view.file)],
    ]),
  );
  sayProblems(io, view);
}

async function changeSetting(context: CommandContext, key: string, value: unknown): Promise<void> {
  const { api, io, json } = context;
  const patch = key.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Record<
    string,
    unknown
  >;
  const view = await api.call('setSettings', { body: patch });
  // The others concern what is lent.
  const hasNoEffect = /^lan(\.|$)/.test(key) && view.problems.some((problem) => !problem.includes('(lend.'));
  if (json) io.out(`${JSON.stringify(view)}\n`);
  else saySetting(context, key, view);
  if (hasNoEffect) throw new Exit(exitCodes.failed);
}

function saySetting(context: CommandContext, key: string, view: SettingsView): void {
  const { io } = context;
  io.out(`${key} is ${shownSetting(key, valueOf(view.settings, key))} now.\n`);
  if (key.startsWith('lan.') && view.lanAddresses.length > 0) sayLan(context, view);
  sayProblems(io, view);
}

function sayLan({ io }: CommandContext, view: SettingsView): void {
  const own = view.lanCertificate?.caFingerprint;
  io.err(
    `Other machines reach the API at ${view.lanAddresses.slice(0, 4).join(', ')}, with a key.\n` +
      (own == null
        ? ''
        : `They have to trust ${printable(join(dirname(view.file), 'lan', 'ca.pem'))}, whose SHA-256 is\n  ${own}\n`),
  );
}

function sayProblems(io: CommandContext['io'], view: SettingsView): void {
  for (const problem of view.problems) io.err(`warning: ${printable(problem)}\n`);
}

/** As the setting's own type has it; what is no setting goes as it is, and the machine says so. */
function parseValue(key: string, text: string): unknown {
  const like = leaves(defaultSettings).find(([name]) => name === key)?.[1];
  if (typeof like === 'boolean') {
    if (/^(true|on|yes)$/i.test(text)) return true;
    if (/^(false|off|no)$/i.test(text)) return false;
    throw new UsageError(`${key} is either on or off, got "${text}".`);
  }
  if (typeof like === 'number') {
    if (/^-?\d{1,15}$/.test(text)) return Number(text);
    throw new UsageError(`${key} is a whole number, got "${text}".`);
  }
  if (isSize(key) && like !== undefined) {
    const size = text === 'none' ? null : sizeOf(text);
    if (size !== null || text === 'none') return size;
    throw new UsageError(`${key} is a size such as 50GB, at most 8191TB, or none, got "${text}".`);
  }
  if (Array.isArray(like)) return text.trim() === '' ? [] : text.split(',').map((part) => part.trim());
  return text;
}

/** @throws CoveyError `setting_unknown` */
function valueOf(settings: object, key: string): unknown {
  const all = leaves(settings);
  const found = all.find(([name]) => name === key);
  if (found) return found[1];
  const below = all.filter(([name]) => name.startsWith(`${key}.`));
  if (below.length > 0) {
    return Object.fromEntries(below.map(([name, value]) => [name.slice(key.length + 1), value]));
  }
  const names = all.map(([name]) => name);
  const near = suggest(key, names);
  const hint = near === null ? `There are: ${names.join(', ')}.` : `Did you mean ${near}?`;
  throw new CoveyError('setting_unknown', `There is no setting "${key}". ${hint}`, { field: 'key' });
}

/** `lan.port`, in the order of the settings. */
export function settingKeys(settings: object): string[] {
  return leaves(settings).map(([name]) => name);
}

function leaves(value: object, prefix = ''): [string, unknown][] {
  return Object.entries(value).flatMap(([name, part]): [string, unknown][] =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? leaves(part as object, `${prefix}${name}.`)
      : [[prefix + name, part]],
  );
}

function isSize(key: string): boolean {
  return /Bytes(PerS)?$/.test(key);
}

/** Sizes as people write them: `config set` takes what is shown. */
function shownSetting(key: string, value: unknown): string {
  return isSize(key) && typeof value === 'number' ? exactSizeText(value) : shown(value);
}

function shown(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return 'none';
  if (Array.isArray(value)) {
    return printable(
      value.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(', '),
    );
  }
  return printable(typeof value === 'string' ? value : JSON.stringify(value));
}
