import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { JobId } from '#shared/lib/ids.ts';
import { runCovey } from '../support/cli.ts';
import { createCluster, type RunningNode } from '../support/cluster.ts';
import { processInfo } from '../support/processes.ts';
import { waitFor } from '../support/wait.ts';
import type { JobsSide } from './jobs-side.ts';

const doneMs = 120_000;

/** A controller and so many workers with the dataset of the kernel; the jobs are sums over one element each. */
export async function startCovey(elements: number, workers: number): Promise<JobsSide> {
  const cluster = createCluster();
  try {
    const controller = await cluster.startController({ name: 'controller' });
    const { client } = controller;
    const nodes: RunningNode[] = [];
    for (let index = 0; index < workers; index += 1) {
      nodes.push(await cluster.startWorker({ name: `worker-${index}`, join: await controller.invite() }));
    }
    const file = path.join(cluster.directory, 'ones.i32');
    await writeFile(file, new Int32Array(elements).fill(1));
    const put = await runCovey(controller, ['artifacts', 'put', file, '--name', 'ones', '--json']);
    if (put.code !== 0) throw new Error(`covey artifacts put: ${put.stderr}`);

    const submit = async (partitions: number): Promise<JobId> => {
      const spec = { kind: 'kernel', kernel: 'sum', type: 'i32', input: 'ones', partitions } as const;
      return (await client.call('submitJob', { body: spec })).id;
    };
    const finished = async (id: JobId, intervalMs: number): Promise<number> => {
      const view = await waitFor(
        'the job to be done',
        async () => {
          const found = await client.call('job', { params: { job: id } });
          return found.finishedAt === null ? null : found;
        },
        doneMs,
        intervalMs,
      );
      if (view.status !== 'done' || view.result?.value !== elements) {
        throw new Error(`the job is ${view.status}: ${JSON.stringify(view.error ?? view.result)}`);
      }
      return view.finishedAt ?? NaN;
    };
    // Kernel libraries are looked at after a start.
    await waitFor(
      'all workers to compute',
      async () => {
        const id = await submit(400);
        await finished(id, 100);
        const { shares } = await client.call('job', { params: { job: id } });
        return shares.filter(({ donePercent }) => donePercent > 0).length === workers;
      },
      60_000,
      500,
    );
    return {
      async many(count) {
        const startedAt = Date.now();
        return (await finished(await submit(count), 100)) - startedAt;
      },
      async one() {
        const startedAt = Date.now();
        return (await finished(await submit(1), 10)) - startedAt;
      },
      cpuMs: () => processInfo(controller.process.pid)?.cpuMs ?? NaN,
      workersCpuMs: () =>
        nodes.flatMap((node) => node.processes()).reduce((sum, { cpuMs }) => sum + cpuMs, 0),
      close: () => cluster.close(),
    };
  } catch (error) {
    await cluster.close();
    throw error;
  }
}
