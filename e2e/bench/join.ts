import { createCluster, type Cluster, type RunningController } from '../support/cluster.ts';
import { waitFor } from '../support/wait.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

const rounds = 10;
const stepMs = 15_000;
const pollMs = 10;

/**
 * How long it takes to add a machine that nobody has told anything: from the start of its worker's process until it
 * may get work. It makes its key, finds the controller by multicast DNS, asks to join by the controller's name, and
 * is approved by its number over the API; the person who types and confirms is the bench, and takes no time.
 * One round before those that count.
 */
export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const cluster = createCluster();
  try {
    const name = `bench-${process.pid}`;
    const controller = await cluster.startController({ name, cluster: '0.0.0.0:0', discovery: true });
    const runs: BenchRun[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      const figures = await addMachine(cluster, controller, `machine-${round}`);
      log(`round ${round}: ready after ${figures['readyMs']?.toFixed(0)} ms`);
      if (round > 0) runs.push({ side: 'worker', figures });
    }
    const of = (figure: string): number => median(runs.map((one) => one.figures[figure] ?? NaN));
    return {
      name: 'join',
      ratio: null,
      ratioOf: 'from the start of a worker to ready, found by mDNS and approved by the API; lower is better',
      ours: of('readyMs'),
      theirs: null,
      unit: 'ms from start to ready, median',
      runs,
      more: {
        medianMs: of('readyMs'),
        apiMs: of('apiMs'),
        foundMs: of('foundMs'),
        numberMs: of('numberMs'),
        joinedMs: of('joinedMs'),
      },
      targets: { medianMs: { atMost: 2_000 } },
      machine: describeMachine(),
    };
  } finally {
    await cluster.close();
  }
}

/** Times since the start of the process at which each step was done. */
async function addMachine(
  cluster: Cluster,
  controller: RunningController,
  name: string,
): Promise<Record<string, number>> {
  const startedAt = performance.now();
  const sinceStart = (): number => performance.now() - startedAt;
  const worker = await cluster.startWorker({
    name,
    cluster: '0.0.0.0:0',
    api: '127.0.0.1:0',
    discovery: true,
  });
  const apiMs = sinceStart();
  const until = <T>(what: string, probe: () => Promise<T>) => waitFor(what, probe, stepMs, pollMs);
  await until('the controller to be found', async () => {
    await worker.client.call('join', { body: { controller: controller.name } });
    return true;
  });
  const foundMs = sinceStart();
  const code = await until('the number', async () => (await worker.client.call('self')).join?.code);
  const numberMs = sinceStart();
  await until('the controller to take the number', async () =>
    controller.client.call('approve', { body: { code } }),
  );
  await worker.client.call('confirmJoin');
  await until(
    'the machine to be a member',
    async () => (await worker.client.call('self')).join?.phase === 'joined',
  );
  const joinedMs = sinceStart();
  await until('the machine to be ready', async () => {
    const { nodes } = await controller.client.call('nodes');
    return nodes.some((node) => node.name === name && node.eligible);
  });
  const readyMs = sinceStart();
  await worker.stop();
  await controller.client.call('removeNode', { params: { node: name } });
  return { apiMs, foundMs, numberMs, joinedMs, readyMs };
}
