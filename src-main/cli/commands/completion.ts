import { Argument } from 'commander';
import { productVersion } from '../../nodejs/version.ts';
import { commandTree } from '../command-tree.ts';
import { completionScript, shells, type Shell } from '../completion.ts';
import { manualPage } from '../manual.ts';
import type { AddCommands } from '../registry.ts';

export const addCompletionCommands: AddCommands = ({ program, add, io }) => {
  add('completion', 'print a script that completes commands in your shell')
    .addArgument(new Argument('<shell>', 'which one').choices(shells))
    .addHelpText(
      'after',
      '\nbash:        eval "$(covey completion bash)"        in ~/.bashrc\n' +
        'zsh:         eval "$(covey completion zsh)"         in ~/.zshrc\n' +
        'fish:        covey completion fish | source         in config.fish\n' +
        'powershell:  covey completion powershell | Out-String | Invoke-Expression',
    )
    .action((shell: Shell) => io.out(completionScript(shell, commandTree(program))));
  add('man', 'print the manual page ("covey man | man -l -")').action(() =>
    io.out(manualPage(commandTree(program), productVersion)),
  );
};
