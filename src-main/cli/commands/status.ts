import type { Command } from 'commander';
import { shortNodeId } from '#shared/lib/ids.ts';
import type { CommandContext } from '../context.ts';
import type { AddCommands } from '../registry.ts';
import { renderFields } from '../table.ts';
import { duration } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';

export const addStatusCommand: AddCommands = ({ add, act }) => {
  watchOption(add('status', 'the controller at a glance')).action((flags: WatchFlags, command: Command) =>
    act(command, watching(flags, showStatus)),
  );
};

export async function showStatus({ api, io, json }: CommandContext): Promise<void> {
  const status = await api.call('status');
  if (json) return io.out(`${JSON.stringify(status)}\n`);
  io.out(
    renderFields([
      ['Controller', `${status.name} (${shortNodeId(status.nodeId)}), covey ${status.version}`],
      ['Up for', duration(Math.max(0, io.now() - status.startedAt))],
      ['API', `${status.apiAddress}/v1 (OpenAI), ${status.apiAddress}/api`],
      ['Cluster port', status.clusterAddress ?? 'closed'],
      [
        'Engine',
        status.engineBuildId.known ? status.engineBuildId.value : `unknown: ${status.engineBuildId.reason}`,
      ],
      ['Machines', `${status.nodes.ready} of ${status.nodes.total} may get work`],
      ['Models', `${status.deployments.ready} of ${status.deployments.total} ready`],
      ['Requests', `${status.requestsRunning} running`],
    ]),
  );
}
