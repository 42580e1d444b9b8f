import type { Command } from 'commander';
import type { CommandContext } from './context.ts';
import type { CliIo } from './io.ts';
import { suggest } from './suggest.ts';
import { printable } from './text.ts';
import { watching } from './watch.ts';

export interface GlobalOptions {
  readonly api: string | undefined;
  readonly data: string | undefined;
  readonly json: boolean;
}

export type Action = (context: CommandContext) => Promise<void>;

/** Runs one command with its context, which is made from the global options once they are known. */
export type RunCommand = (options: GlobalOptions, command: Action) => Promise<void>;

/** What a file of commands adds its own to. */
export interface CommandRegistry {
  readonly program: Command;
  readonly io: CliIo;
  /** `add('drain <node>', '...').option(...).action(...)`; below `parent` where one is given. */
  readonly add: (nameAndArguments: string, description: string, parent?: Command) => Command;
  /** A word with subcommands that alone does `list`: `covey nodes` is `covey nodes list`. */
  readonly group: (name: string, description: string, list: Action, watchable?: 'watchable') => Command;
  /** To be called in `.action(...)`. */
  readonly act: (command: Command, action: Action) => Promise<void>;
  readonly options: (command: Command) => GlobalOptions;
}

export type AddCommands = (registry: CommandRegistry) => void;

export function createRegistry(program: Command, io: CliIo, run: RunCommand): CommandRegistry {
  const options = (command: Command): GlobalOptions => {
    const all = command.optsWithGlobals<{ api?: string; data?: string; json?: boolean }>();
    return { api: all.api, data: all.data, json: all.json === true };
  };
  const act = (command: Command, action: Action): Promise<void> => run(options(command), action);
  const add = (nameAndArguments: string, description: string, parent = program): Command =>
    // Groups take any argument, to say what was meant; their commands must not inherit that.
    parent.command(nameAndArguments).description(description).allowExcessArguments(false);
  return {
    program,
    io,
    add,
    act,
    options,
    group(name, description, list, watchable) {
      const group = add(name, description);
      if (watchable) group.addHelpText('after', '\nAlone it does "list"; --watch shows it again every 2 s.');
      // `covey nodes` alone lists; `covey nodes lits` is a typing error, not an argument. An option of the group's own
      // would also be taken from the words of its commands, so the one that it has is looked for here.
      group.allowExcessArguments(true).allowUnknownOption(true);
      return group.action((_flags, command: Command) => {
        const watch = watchable !== undefined && command.args.includes('--watch');
        const wrong = command.args.find((word) => !watch || word !== '--watch');
        if (wrong === undefined) return act(command, watching({ watch }, list));
        const isOption = wrong.startsWith('-');
        const known = isOption
          ? ['--watch', '--json', '--api', '--data']
          : group.commands.map((one) => one.name());
        const near = suggest(wrong, known);
        return command.error(
          `error: unknown ${isOption ? 'option' : 'command'} '${printable(wrong)}'${near === null ? '' : `\n(Did you mean ${near}?)`}`,
          { code: isOption ? 'commander.unknownOption' : 'commander.unknownCommand' },
        );
      });
    },
  };
}
