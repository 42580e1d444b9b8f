import { setTimeout as delay } from 'node:timers/promises';
import { createCluster, type RunningNode } from '../support/cluster.ts';
import { waitFor } from '../support/wait.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

const measureMs = 30_000;
const settleMs = 5_000;
const rounds = 3;

/**
 * What an idle controller and an idle worker cost: CPU time of all their processes over 30 s, in percent of one
 * core, and their resident memory together. Shared pages count in every process, so memory is an upper bound.
 */
export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const cluster = createCluster();
  try {
    const controller = await cluster.startController();
    const worker = await cluster.startWorker({ join: await controller.invite() });
    await waitFor(
      'the worker to be ready',
      async () => (await controller.client.call('nodes')).nodes.some((node) => node.eligible),
      30_000,
    );
    await delay(settleMs);
    const runs: BenchRun[] = [];
    for (let round = 1; round <= rounds; round += 1) {
      log(`round ${round} of ${rounds}: ${measureMs / 1000} s of doing nothing ...`);
      runs.push(...(await measure({ controller, worker })));
    }
    const of = (side: string, name: string): number =>
      median(runs.filter((one) => one.side === side).map((one) => one.figures[name] ?? NaN));
    return {
      name: 'footprint',
      ratio: null,
      ratioOf: 'idle cost of all processes of a node; lower is better',
      ours: of('worker', 'rssMb'),
      theirs: null,
      unit: 'MB of memory for an idle worker',
      runs,
      more: {
        workerCpuPercent: of('worker', 'cpuPercent'),
        workerRssMb: of('worker', 'rssMb'),
        controllerCpuPercent: of('controller', 'cpuPercent'),
        controllerRssMb: of('controller', 'rssMb'),
      },
      targets: {
        workerCpuPercent: { atMost: 1 },
        workerRssMb: { atMost: 150 },
        controllerCpuPercent: { atMost: 1 },
        controllerRssMb: { atMost: 200 },
      },
      machine: describeMachine(),
    };
  } finally {
    await cluster.close();
  }
}

async function measure(nodes: Readonly<Record<string, RunningNode>>): Promise<BenchRun[]> {
  const before = Object.entries(nodes).map(([side, node]) => ({ side, node, cpuMs: cpuOf(node) }));
  const startedAt = performance.now();
  await delay(measureMs);
  const spentMs = performance.now() - startedAt;
  return before.map(({ side, node, cpuMs }) => {
    const processes = node.processes();
    return {
      side,
      figures: {
        cpuPercent: ((cpuOf(node) - cpuMs) / spentMs) * 100,
        rssMb: processes.reduce((sum, one) => sum + one.rssBytes, 0) / 1e6,
        processes: processes.length,
      },
    };
  });
}

function cpuOf(node: RunningNode): number {
  return node.processes().reduce((sum, one) => sum + one.cpuMs, 0);
}
