import { Command } from 'commander';
import { addAccessCommands } from './commands/access.ts';
import { addArtifactCommands } from './commands/artifacts.ts';
import { addCompletionCommands } from './commands/completion.ts';
import { addConfigCommands } from './commands/config.ts';
import { addDeploymentCommands } from './commands/deployments.ts';
import { addDeviceCommands } from './commands/devices.ts';
import { addDiscoverCommand } from './commands/discover.ts';
import { addDistributionCommands } from './commands/distribution.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addLinksCommand } from './commands/links.ts';
import { addJoiningCommands } from './commands/joining.ts';
import { addIdentityCommands } from './commands/identity.ts';
import { addJobCommands } from './commands/jobs.ts';
import { addLendCommands } from './commands/lend.ts';
import { addLoadCommands } from './commands/load.ts';
import { addModelCommands } from './commands/models.ts';
import { addNodeActionCommands } from './commands/node-actions.ts';
import { addNodeCommands } from './commands/nodes.ts';
import { addRunCommand } from './commands/run.ts';
import { addStatusCommand } from './commands/status.ts';
import { addTaskCommands } from './commands/tasks.ts';
import { addWatchingCommands } from './commands/watching.ts';
import { argumentDescription, optionDescription, plainUsageError, wrapLines } from './help-text.ts';
import type { CliIo } from './io.ts';
import { createRegistry, type AddCommands, type RunCommand } from './registry.ts';

const helpAfter = `
On a machine:
  controller                  run the controller ("covey controller --help")
  worker                      lend this machine ("covey worker --help")

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no controller reached.`;

/** In the order in which the help lists them. */
const parts: readonly AddCommands[] = [
  addStatusCommand,
  addNodeCommands,
  addDeviceCommands,
  addLoadCommands,
  addDeploymentCommands,
  addRunCommand,
  addJobCommands,
  addTaskCommands,
  addDistributionCommands,
  addArtifactCommands,
  addDiscoverCommand,
  addJoiningCommands,
  addNodeActionCommands,
  addLendCommands,
  addModelCommands,
  addWatchingCommands,
  addAccessCommands,
  addConfigCommands,
  addDoctorCommand,
  addLinksCommand,
  addIdentityCommands,
  addCompletionCommands,
];

/** The `covey` command line. Both `covey nodes` and `covey nodes list` work, and `workers` is the same word. */
export function createProgram(io: CliIo, version: string, run: RunCommand): Command {
  const program = new Command('covey')
    .description('Make the computers you already own work as one AI computer.')
    .version(version, '--version', 'print the version')
    .option('--api <host:port>', "where the API is (default: COVEY_API, or this machine's)")
    .option('--data <dir>', "this machine's data directory, for its token (default: COVEY_DATA)")
    .option('--json', 'print JSON')
    .configureHelp({
      helpWidth: 80,
      showGlobalOptions: true,
      subcommandTerm,
      optionDescription,
      argumentDescription,
    })
    .configureOutput({
      // Help, which is written by hand in part.
      writeOut: (text) => io.out(wrapLines(text, 80)),
      writeErr: (text) => io.err(text),
      outputError: (text, write) => write(plainUsageError(text)),
    })
    .addHelpText('after', helpAfter)
    .helpCommand('help [command]', 'explain a command')
    .showHelpAfterError('(add --help to see how it is used)')
    .exitOverride();
  const registry = createRegistry(program, io, run);
  for (const addCommands of parts) addCommands(registry);
  registry.add('version', 'print the version').action((_flags, command: Command) => {
    io.out(registry.options(command).json ? `${JSON.stringify({ version })}\n` : `${version}\n`);
  });
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
