import { Command } from 'commander';
import { parseList, parseSeconds, parseSplit, parseWhole } from './arguments.ts';
import { listDeployments, showDeployment } from './commands/deployments.ts';
import { loadModel, retryModel, unloadModel, type LoadOptions } from './commands/load.ts';
import { importModel, listModels, pullModel } from './commands/models.ts';
import { drainNode, invite, removeNode, resumeNode } from './commands/node-actions.ts';
import { listNodes, showNode } from './commands/nodes.ts';
import { showStatus } from './commands/status.ts';
import { showEvents, showLogs } from './commands/watching.ts';
import type { CommandContext } from './context.ts';
import type { CliIo } from './io.ts';
import { suggest } from './suggest.ts';
import { printable } from './text.ts';

/** Runs one command with its context, which is made from the global options once they are known. */
export type RunCommand = (
  options: GlobalOptions,
  command: (context: CommandContext) => Promise<void>,
) => Promise<void>;

export interface GlobalOptions {
  readonly api: string | undefined;
  readonly json: boolean;
}

interface LoadFlags {
  readonly nodes?: string[];
  readonly split?: Record<string, number>;
  readonly leader?: string;
  readonly ctx?: number;
  readonly parallel?: number;
  readonly name?: string;
  readonly wait: boolean;
}

const helpAfter = `
On a machine:
  controller                  run the controller ("covey controller --help")
  worker                      lend this machine ("covey worker --help")

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no controller reached.`;

/** The `covey` command line. Both `covey nodes` and `covey nodes list` work, and `workers` is the same word. */
export function createProgram(io: CliIo, version: string, run: RunCommand): Command {
  const program = new Command('covey')
    .description('Make the computers you already own work as one AI computer.')
    .version(version, '--version', 'print the version')
    .option('--api <host:port>', 'where the controller is (default: COVEY_API or 127.0.0.1:7878)')
    .option('--json', 'print JSON')
    .configureHelp({ helpWidth: 80, showGlobalOptions: true, subcommandTerm })
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text) })
    .addHelpText('after', helpAfter)
    .helpCommand('help [command]', 'explain a command')
    .showHelpAfterError('(add --help to see how it is used)')
    .exitOverride();

  const add = (parent: Command, nameAndArguments: string, description: string): Command =>
    parent.command(nameAndArguments).description(description);
  const act = (command: Command, action: (context: CommandContext) => Promise<void>): Promise<void> =>
    run(globalOptions(command), action);

  add(program, 'status', 'the controller at a glance').action((_flags, command: Command) =>
    act(command, showStatus),
  );

  const nodes = program.command('nodes').alias('workers').description('the machines');
  add(nodes, 'list', 'list the machines').action((_flags, command: Command) => act(command, listNodes));
  add(nodes, 'info <node>', 'all about one machine').action((node: string, _flags, command: Command) =>
    act(command, (context) => showNode(context, node)),
  );

  add(program, 'load <model>', 'load a model (a path on a machine, a library name, or hf:...)')
    .option('--nodes <a,b>', 'the machines to use', parseList)
    .option('--split <a=60,b=40>', 'share of the model by machine', parseSplit)
    .option('--leader <node>', 'the machine that has the file and answers')
    .option('--ctx <tokens>', 'context of each request', parseWhole(16, 16_777_216))
    .option('--parallel <n>', 'requests at once', parseWhole(1, 64))
    .option('--name <name>', "name for clients (default: the file's)")
    .option('--no-wait', 'do not wait until it is ready')
    .action((model: string, flags: LoadFlags, command: Command) =>
      act(command, (context) => loadModel(context, model, loadOptions(flags))),
    );
  add(program, 'unload <id>', 'unload a model, by id or name').action(
    (id: string, _flags, command: Command) => act(command, (context) => unloadModel(context, id)),
  );
  add(program, 'retry <id>', 'try again to load a model that failed').action(
    (id: string, _flags, command: Command) => act(command, (context) => retryModel(context, id)),
  );

  const deployments = program.command('deployments').description('the loaded models');
  add(deployments, 'list', 'list the loaded models').action((_flags, command: Command) =>
    act(command, listDeployments),
  );
  add(deployments, 'info <id>', 'all about one of them').action((id: string, _flags, command: Command) =>
    act(command, (context) => showDeployment(context, id)),
  );

  add(program, 'invite', 'print a join string for one more machine').action((_flags, command: Command) =>
    act(command, invite),
  );
  add(program, 'drain <node>', 'give a machine no new work and let it finish')
    .option('--deadline <seconds>', 'time for running requests (default: 600)', parseSeconds)
    .action((node: string, flags: { deadline?: number }, command: Command) =>
      act(command, (context) => drainNode(context, node, flags.deadline)),
    );
  add(program, 'resume <node>', 'give a drained machine work again').action(
    (node: string, _flags, command: Command) => act(command, (context) => resumeNode(context, node)),
  );
  add(program, 'remove <node>', 'remove a machine from the covey')
    .option('--yes', 'do not ask', false)
    .action((node: string, flags: { yes: boolean }, command: Command) =>
      act(command, (context) => removeNode(context, node, flags.yes)),
    );

  const models = program.command('models').description("the models in the machines' libraries");
  add(models, 'list', 'list the models').action((_flags, command: Command) => act(command, listModels));
  add(program, 'import <path>', "copy a file of a machine into that machine's library")
    .requiredOption('--node <node>', 'the machine that has the file')
    .option('--name <name>', "name in the library (default: the file's)")
    .action((path: string, flags: { node: string; name?: string }, command: Command) =>
      act(command, (context) => importModel(context, path, flags.node, flags.name)),
    );
  add(program, 'pull <source>', "download hf:OWNER/REPO/FILE.gguf into a machine's library")
    .option('--node <node>', 'the machine (default: the one with most room)')
    .action((source: string, flags: { node?: string }, command: Command) =>
      act(command, (context) => pullModel(context, source, flags.node)),
    );

  add(program, 'events', 'what has happened')
    .option('--follow', 'and what happens, until Ctrl-C', false)
    .action((flags: { follow: boolean }, command: Command) =>
      act(command, (context) => showEvents(context, flags.follow)),
    );
  add(program, 'logs', "the machines' logs")
    .option('--node <node>', 'of one machine only')
    .option('--lines <n>', 'how many of the newest', parseWhole(1, 5_000), 100)
    .action((flags: { node?: string; lines: number }, command: Command) =>
      act(command, (context) => showLogs(context, flags.node, flags.lines)),
    );
  add(program, 'version', 'print the version').action((_flags, command: Command) => {
    io.out(globalOptions(command).json ? `${JSON.stringify({ version })}\n` : `${version}\n`);
  });

  // `covey nodes` alone lists; `covey nodes lits` is a typing error, not an argument.
  for (const [group, list] of [
    [nodes, listNodes],
    [deployments, listDeployments],
    [models, listModels],
  ] as const) {
    group.allowExcessArguments(true).action((_flags, command: Command) => {
      const wrong = command.args[0];
      if (wrong === undefined) return act(command, list);
      const near = suggest(
        wrong,
        group.commands.map((one) => one.name()),
      );
      return command.error(
        `error: unknown command '${printable(wrong)}'${near === null ? '' : `\n(Did you mean ${near}?)`}`,
        { code: 'commander.unknownCommand' },
      );
    });
  }
  return program;
}

/** `nodes|workers`, `load <model>`: every command has options, so saying so tells nothing. */
function subcommandTerm(command: Command): string {
  const names = [command.name(), ...command.aliases()].join('|');
  const operands = command.registeredArguments.map((one) =>
    one.required ? `<${one.name()}>` : `[${one.name()}]`,
  );
  return [names, ...operands].join(' ');
}

function globalOptions(command: Command): GlobalOptions {
  const options = command.optsWithGlobals<{ api?: string; json?: boolean }>();
  return { api: options.api, json: options.json === true };
}

function loadOptions(flags: LoadFlags): LoadOptions {
  return {
    nodes: flags.nodes,
    split: flags.split,
    leader: flags.leader,
    contextPerRequest: flags.ctx,
    parallel: flags.parallel,
    name: flags.name,
    wait: flags.wait,
  };
}
