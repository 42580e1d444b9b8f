import { homedir } from 'node:os';
import { Argument, type Command } from 'commander';
import { defaultSettings } from '#shared/settings.ts';
import { productVersion } from '../../nodejs/version.ts';
import { commandTree } from '../command-tree.ts';
import { complete, namesAt, readLine, type ClosedLists, type Completion } from '../completing.ts';
import { namesOf, type Offered } from '../completion-names.ts';
import { completionScript, shells, type Shell } from '../completion.ts';
import { lendValues } from '../lend-values.ts';
import { manualPage } from '../manual.ts';
import type { AddCommands } from '../registry.ts';
import { printable } from '../text.ts';
import { settingKeys } from './config.ts';
import { templateNames } from './job-templates.ts';

export const addCompletionCommands: AddCommands = ({ program, add, act, io }) => {
  add('completion', 'print a script that completes commands in your shell')
    .addArgument(new Argument('<shell>', 'which one').choices(shells))
    .addHelpText(
      'after',
      '\nNames of machines, jobs, models and artifacts are asked for while you type.\n' +
        '\nbash:        eval "$(covey completion bash)"        in ~/.bashrc\n' +
        'zsh:         eval "$(covey completion zsh)"         in ~/.zshrc\n' +
        'fish:        covey completion fish | source         in config.fish\n' +
        'powershell:  covey completion powershell | Out-String | Invoke-Expression',
    )
    .action((shell: Shell) => io.out(completionScript(shell)));
  add('man', 'print the manual page ("covey man | man -l -")').action(() =>
    io.out(manualPage(commandTree(program), productVersion)),
  );

  // For those scripts alone. It never fails: a shell at its prompt has no place for reasons.
  const keys = (): string[] => settingKeys(defaultSettings);
  const lists: ClosedLists = {
    'config get key': keys,
    'config set key': keys,
    'config unset key': keys,
    'lend set rule': () => lendValues.map(({ name }) => name),
    'jobs templates name': templateNames,
  };
  program
    .command('complete [words...]', { hidden: true })
    .requiredOption('--current <word>')
    .action(async (before: string[], { current }: { current: string }, command: Command) => {
      const line = readLine(commandTree(program), before);
      const kinds = namesAt(line, current);
      let names: Offered[] = [];
      if (kinds.length > 0) {
        for (const [name, value] of line.globals) {
          program.setOptionValue(name.slice(2), value.replace(/^~(?=\/|$)/, homedir()));
        }
        await act(command, async ({ api }) => {
          names = await namesOf(api, kinds);
        }).catch(() => undefined);
      }
      io.out(completionText(complete(line, current, names, lists)));
    });
};

function completionText({ words, files, open }: Completion): string {
  const how = `${files ? 'files' : 'words'}${open ? ' open' : ''}`;
  return [how, ...words.map(({ word, about }) => `${word}\t${printable(about)}`), ''].join('\n');
}
