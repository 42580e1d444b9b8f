import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { z } from 'zod';
import type { JobView } from '#shared/domain/job.ts';
import type { gangJobSchema } from '#shared/domain/job-spec.ts';
import type { Cluster, NodeOptions, RunningController, RunningNode } from './cluster.ts';
import { untilEligible } from './split-cluster.ts';
import { waitFor } from './wait.ts';

/** Without `network` it is `lan`. */
type GangSpec = Omit<z.input<typeof gangJobSchema>, 'kind'>;

/** A controller and workers whose owners let programs run and see a network, for tests of gangs. */
export interface GangMachines {
  readonly controller: RunningController;
  readonly workers: readonly RunningNode[];
  /** One more worker. */
  add(name: string): Promise<RunningNode>;
  submit(spec: GangSpec): Promise<JobView>;
  view(id: string): Promise<JobView>;
  /** The job once it is over, however. */
  finished(id: string, timeoutMs?: number): Promise<JobView>;
  /** What a rank has printed so far. */
  log(id: string, rank: number): Promise<string>;
  content(artifact: string): Promise<string>;
}

export const gangPorts = { from: 21_000, to: 21_399 };

/** @param networkInterface what programs may see: `lo` where all machines are this one */
export async function startGangMachines(
  cluster: Cluster,
  networkInterface: string,
  names: readonly string[],
  options: { controller?: NodeOptions; worker?: (name: string) => NodeOptions } = {},
): Promise<GangMachines> {
  const controller = await cluster.startController(options.controller);
  const { client } = controller;
  const workers: RunningNode[] = [];
  const add = async (name: string): Promise<RunningNode> => {
    const dataDirectory = path.join(cluster.directory, name);
    mkdirSync(dataDirectory, { mode: 0o700 });
    const network = { interface: networkInterface, ports: gangPorts };
    const config = { lend: { kinds: { commands: true }, network } };
    writeFileSync(path.join(dataDirectory, 'config.json'), JSON.stringify(config), { mode: 0o600 });
    const join = await controller.invite();
    const worker = await cluster.startWorker({ name, dataDirectory, join, ...options.worker?.(name) });
    workers.push(worker);
    await untilEligible(controller, workers.length);
    return worker;
  };
  for (const name of names) await add(name);
  const view = (id: string): Promise<JobView> => client.call('job', { params: { job: id } });
  return {
    controller,
    workers,
    add,
    submit: (spec) => client.call('submitJob', { body: { network: 'lan', ...spec, kind: 'gang' } }),
    view,
    finished: (id, timeoutMs = 60_000) =>
      waitFor(
        'the gang to be over',
        async () => {
          const found = await view(id);
          return found.finishedAt === null ? null : found;
        },
        timeoutMs,
        100,
      ),
    async log(id, rank) {
      const query = { index: String(rank) };
      return (await client.call('jobLog', { params: { job: id }, query })).output;
    },
    async content(artifact) {
      const response = await fetch(`${controller.api}/api/artifacts/${artifact}/content`, {
        headers: { authorization: `Bearer ${controller.token}` },
      });
      return response.text();
    },
  };
}
