import type { LoadBody } from '../../src-main/shared/api/schema.ts';
import type { DeploymentStatus, DeploymentView } from '../../src-main/shared/domain/deployment.ts';
import type { Cluster, NodeOptions, RunningController, RunningNode } from './cluster.ts';
import { waitFor } from './wait.ts';

/** A controller and two workers on this machine, connected. `anna` leads by default: she is named first. */
export interface SplitCluster {
  readonly controller: RunningController;
  readonly anna: RunningNode;
  readonly ben: RunningNode;
}

export async function startSplitCluster(
  cluster: Cluster,
  options: { controller?: NodeOptions; anna?: NodeOptions; ben?: NodeOptions } = {},
): Promise<SplitCluster> {
  const controller = await cluster.startController(options.controller);
  const anna = await cluster.startWorker({ name: 'anna', join: await controller.invite(), ...options.anna });
  const ben = await cluster.startWorker({ name: 'ben', join: await controller.invite(), ...options.ben });
  await untilEligible(controller, 2);
  return { controller, anna, ben };
}

export async function untilEligible(
  controller: RunningController,
  count: number,
  timeoutMs = 30_000,
): Promise<void> {
  await waitFor(
    `${count} machines to be ready`,
    async () => {
      const { nodes } = await controller.client.call('nodes');
      const eligible = nodes.filter((node) => node.eligible);
      if (eligible.length >= count) return true;
      throw new Error(
        nodes.map((node) => `${node.name} ${node.status} ${node.ineligibleReasons.join(', ')}`).join('; '),
      );
    },
    timeoutMs,
  );
}

/** Half and half unless told otherwise. */
export function load(
  controller: RunningController,
  model: string,
  body: Partial<LoadBody> = {},
): Promise<DeploymentView> {
  return controller.client.call('load', {
    body: { model, nodes: ['anna', 'ben'], split: { anna: 50, ben: 50 }, leader: 'anna', ...body },
  });
}

export async function untilStatus(
  controller: RunningController,
  id: string,
  status: DeploymentStatus,
  timeoutMs = 60_000,
): Promise<DeploymentView> {
  return waitFor(
    `${id} to be ${status}`,
    async () => {
      const view = await controller.client.call('deployment', { params: { id } });
      if (view.status === status) return view;
      if (view.status === 'failed') throw new LoadFailed(view.reason?.message ?? 'no reason');
      throw new Error(
        `${view.status} ${view.reason?.message ?? ''} ${JSON.stringify(view.stages.map((s) => s.phase))}`,
      );
    },
    timeoutMs,
    50,
    LoadFailed,
  );
}

export class LoadFailed extends Error {}

export async function loadReady(
  controller: RunningController,
  model: string,
  body: Partial<LoadBody> = {},
): Promise<DeploymentView> {
  const { id } = await load(controller, model, body);
  return untilStatus(controller, id, 'ready');
}
