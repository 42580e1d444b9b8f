import type { Command, Option } from 'commander';

/** One word of the command line, for what is made from all of them: completion and the manual page. */
export interface CommandNode {
  /** `covey jobs list` */
  readonly path: readonly string[];
  readonly aliases: readonly string[];
  readonly description: string;
  /** `<job>`, `[spec]`, `[command...]` */
  readonly operands: readonly string[];
  readonly options: readonly OptionNode[];
  /** What its first operand may be, where that is a closed list. */
  readonly choices: readonly string[];
  readonly children: readonly CommandNode[];
}

export interface OptionNode {
  /** `--type` */
  readonly name: string;
  /** `--type <type>` */
  readonly flags: string;
  readonly description: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

/** Commands that run a node and parse their options themselves. */
const roles: readonly (readonly [name: string, description: string, options: readonly string[]])[] = [
  [
    'controller',
    'run the controller',
    [
      '--data',
      '--name',
      '--cluster',
      '--api',
      '--lend',
      '--no-discovery',
      '--engine',
      '--json',
      '--ready-file',
      '--exit-with-parent',
    ],
  ],
  [
    'worker',
    'lend this machine',
    [
      '--data',
      '--name',
      '--cluster',
      '--api',
      '--join',
      '--no-discovery',
      '--engine',
      '--json',
      '--ready-file',
      '--exit-with-parent',
    ],
  ],
];

export function commandTree(program: Command): CommandNode {
  const tree = nodeOf(program, []);
  const roleNodes = roles.map(([name, description, options]): CommandNode => ({
    path: [...tree.path, name],
    aliases: [],
    description,
    operands: [],
    options: options.map((option) => ({
      name: option,
      flags: option,
      description: '',
      takesValue: false,
      choices: [],
    })),
    choices: [],
    children: [],
  }));
  return { ...tree, children: [...tree.children, ...roleNodes] };
}

function nodeOf(command: Command, above: readonly string[]): CommandNode {
  const path = [...above, command.name()];
  return {
    path,
    aliases: command.aliases(),
    description: command.description(),
    operands: command.registeredArguments.map((one) => {
      const name = `${one.name()}${one.variadic ? '...' : ''}`;
      return one.required ? `<${name}>` : `[${name}]`;
    }),
    options: command.options.filter((option) => !option.hidden).map(optionNode),
    choices: command.registeredArguments[0]?.argChoices ?? [],
    children: visibleCommands(command).map((child) => nodeOf(child, path)),
  };
}

/** Without what is not for people. */
function visibleCommands(command: Command): Command[] {
  const shown = new Set(command.createHelp().visibleCommands(command));
  return command.commands.filter((child) => shown.has(child));
}

function optionNode(option: Option): OptionNode {
  return {
    name: option.long ?? option.short ?? '',
    flags: option.flags,
    description: option.description,
    takesValue: option.required || option.optional,
    choices: option.argChoices ?? [],
  };
}

/** All of them, each before its children. */
export function* everyCommand(node: CommandNode): Generator<CommandNode> {
  yield node;
  for (const child of node.children) yield* everyCommand(child);
}
