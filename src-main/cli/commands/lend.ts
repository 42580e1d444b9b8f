import type { Command } from 'commander';
import type { LendState } from '#shared/domain/lend.ts';
import { tell, type CommandContext } from '../context.ts';
import { helpRows } from '../help-text.ts';
import { lendFields, lendValues, parseLendValue } from '../lend-values.ts';
import type { AddCommands } from '../registry.ts';
import { renderFields } from '../table.ts';
import { duration, printable } from '../text.ts';

export const addLendCommands: AddCommands = ({ add, act, group }) => {
  const lend = group('lend', 'when and how far this machine is lent', (context) => showLend(context));
  add('status', 'whether it is lent now, why not, and its rules', lend).action((_flags, command: Command) =>
    act(command, (context) => showLend(context)),
  );
  add('on', 'lend this machine', lend).action((_flags, command: Command) =>
    act(command, (context) => switchLending(context, true)),
  );
  add('off', 'take it back: what runs here for the covey is moved away', lend).action(
    (_flags, command: Command) => act(command, (context) => switchLending(context, false)),
  );
  add('set <rule> <value>', 'change a rule: it has effect at once', lend)
    .addHelpText(
      'after',
      `\nRules:\n${helpRows(lendValues.map(({ name, takes, does }) => [name, takes, does]))}`,
    )
    .action((rule: string, value: string, _flags, command: Command) =>
      act(command, (context) => changeRule(context, rule, value)),
    );
};

async function showLend({ api, io, json, style }: CommandContext): Promise<void> {
  const [self, { settings }] = [await api.call('self'), await api.call('settings')];
  if (json) return io.out(`${JSON.stringify({ state: self.lend, rules: settings.lend })}\n`);
  io.out(`${headline(self.lend, io.now(), style)}\n`);
  for (const { message } of self.lend?.heldBackBy ?? []) tell(io, `  ${printable(message)}\n`);
  io.out(renderFields(lendFields(settings.lend)));
  for (const { rule, reason } of self.lend?.unavailable ?? []) {
    io.err(`warning: the rule "${rule}" has no effect here: ${printable(reason)}\n`);
  }
}

function headline(state: LendState | null, now: number, style: CommandContext['style']): string {
  if (state === null) return 'This machine lends nothing: its controller was started without "--lend".';
  const since = duration(Math.max(0, now - state.since));
  return state.lending
    ? style.good(`This machine is lent, since ${since}.`)
    : style.warn(`This machine is not lent now, since ${since}:`);
}

async function switchLending(context: CommandContext, enabled: boolean): Promise<void> {
  const { api, io, json } = context;
  await api.call('setSettings', { body: { lend: { enabled } } });
  const state = await settledState(context, (lend) => isSwitchedOff(lend) !== enabled);
  if (json) return io.out(`${JSON.stringify({ state })}\n`);
  if (!enabled) {
    return io.out(
      'This machine is not lent any more. What runs here for the covey goes: requests\nmay finish within 30 s.\n',
    );
  }
  tell(
    io,
    state?.lending === false
      ? 'Lending is switched on, but other rules hold it back now:\n' +
          state.heldBackBy.map(({ message }) => `  ${printable(message)}\n`).join('')
      : 'This machine is lent.\n',
  );
}

const settleMs = 3_000;
const settleEveryMs = 100;
const never = new AbortController().signal;

/** The worker judges a changed rule within moments. */
async function settledState(
  { api, io }: CommandContext,
  settled: (state: LendState) => boolean,
): Promise<LendState | null> {
  const endAt = io.now() + settleMs;
  for (;;) {
    const { lend } = await api.call('self');
    if (lend === null || settled(lend) || io.now() >= endAt) return lend;
    await io.sleep(settleEveryMs, never);
  }
}

function isSwitchedOff({ heldBackBy }: LendState): boolean {
  return heldBackBy.some(({ rule }) => rule === 'switch');
}

async function changeRule({ api, io, json }: CommandContext, rule: string, text: string): Promise<void> {
  const { name, patch } = parseLendValue(rule, text);
  const { settings, problems } = await api.call('setSettings', { body: { lend: patch } });
  for (const problem of problems) {
    if (problem.includes(`(lend.${name})`)) io.err(`warning: ${printable(problem)}\n`);
  }
  if (json) return io.out(`${JSON.stringify({ rules: settings.lend })}\n`);
  const shown = lendFields(settings.lend).find(([field]) => field === name)?.[1] ?? '';
  io.out(`${name}: ${shown}\n`);
}
