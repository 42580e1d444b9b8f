import type { JoinView, StartJoinBody } from '../../src-main/shared/api/joining.ts';
import type { RunningController, RunningNode } from './cluster.ts';
import { waitFor } from './wait.ts';

/** What two people do who add a machine by comparing its number. Resolves when the machine is a member. */
export async function pair(
  controller: RunningController,
  worker: RunningNode,
  body: StartJoinBody = {},
): Promise<JoinView> {
  await startJoin(worker, body);
  const { code } = await untilJoin(worker, 'comparing');
  if (code === null) throw new Error('the worker shows no number');
  await waitFor(
    'the request at the controller',
    async () =>
      (await controller.client.call('pending')).pending.some(
        (request) => request.nodeId === worker.report.nodeId,
      ),
    10_000,
  );
  await controller.client.call('approve', { body: { code } });
  await worker.client.call('confirmJoin');
  return untilJoin(worker, 'joined');
}

/** Asks until discovery has found what the body means: a machine that has just started finds nobody yet. */
export async function startJoin(worker: RunningNode, body: StartJoinBody): Promise<void> {
  await waitFor(
    'the join to begin',
    async () => {
      await worker.client.call('join', { body });
      return true;
    },
    15_000,
  );
}

export async function untilJoin(worker: RunningNode, phase: JoinView['phase']): Promise<JoinView> {
  return waitFor(
    `the join of ${worker.name} to be ${phase}`,
    async () => {
      const { join } = await worker.client.call('self');
      if (join?.phase === phase) return join;
      throw new Error(JSON.stringify(join));
    },
    15_000,
  );
}
