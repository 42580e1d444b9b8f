import type { Command } from 'commander';
import type { SelfView } from '#shared/api/self.ts';
import { CoveyError } from '#shared/errors.ts';
import { shortNodeId } from '#shared/lib/ids.ts';
import type { CommandContext } from '../context.ts';
import type { AddCommands } from '../registry.ts';
import { renderFields } from '../table.ts';
import { duration } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';

export const addStatusCommand: AddCommands = ({ add, act }) => {
  watchOption(add('status', 'the controller at a glance; on a worker, that machine too')).action(
    (flags: WatchFlags, command: Command) => act(command, watching(flags, showStatus)),
  );
};

export async function showStatus({ api, io, json }: CommandContext): Promise<void> {
  if (json) return io.out(`${JSON.stringify(await api.call('status'))}\n`);
  const own = async (): Promise<SelfView | null> => {
    const self = await api.call('self').catch(() => null);
    return self?.role === 'worker' ? self : null;
  };
  const status = await api.call('status').catch(async (thrown: unknown) => {
    // Without a login a worker tells of itself alone, which is no failure.
    const self = CoveyError.from(thrown).code === 'admin_required' ? await own() : null;
    if (!self) throw thrown;
    io.out(renderFields(workerFields(self)));
    io.err('What the controller knows needs a login: "covey open" there, then "covey login" here.\n');
    return null;
  });
  if (!status) return;
  const self = await own();
  if (self) io.out(`${renderFields(workerFields(self))}\n`);
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

function workerFields({ name, nodeId, version, membership, lend }: SelfView): [string, string | null][] {
  return [
    ['Machine', `${name} (${shortNodeId(nodeId)}), covey ${version}`],
    [
      'Lent to',
      membership === null
        ? 'nobody yet, see "covey join"'
        : `${membership.controllerName}, ${membership.connected ? 'connected' : 'not connected'}`,
    ],
    ['Lending', lend && (lend.lending ? 'now' : lend.heldBackBy.map(({ message }) => message).join(' '))],
  ];
}
