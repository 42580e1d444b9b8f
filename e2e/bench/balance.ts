import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { JobView } from '#shared/domain/job.ts';
import { runCovey } from '../support/cli.ts';
import { createCluster, type Cluster, type RunningController, type RunningNode } from '../support/cluster.ts';
import { startProcess } from '../support/managed-process.ts';
import { waitFor } from '../support/wait.ts';
import { createQuota, quotaProblem, type Quota } from './balance-quota.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

/** Percent of one processor that each machine has. */
const quotas = [100, 50, 25];
const records = 24_000;
const bareMs = 10_000;
const startMs = 60_000;
const jobMs = 400_000;
const rounds = 3;

/** About 3 ms of work for each line, which is printed again. */
const script = `while read -r line; do
  i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done
  echo "$line"
done`;

interface Machine {
  readonly name: string;
  readonly percent: number;
  readonly quota: Quota;
  node: RunningNode;
}

/**
 * One job (`map` over lines, each a few milliseconds of processor time) on three workers that have 100, 50 and 25 % of
 * a processor, by control groups. The ideal is the sum of their speeds: how many lines the bare program does in
 * groups of its own with the same quotas, all at the same time, without Covey (what idle workers take comes off
 * theirs, not off the ideal); measured in every round, the medians count.
 *
 * - `auto`: time from the submission to the result, over the ideal.
 * - `killed`: one worker, another in each round, is killed (SIGKILL) when half is done and does not come back. The ideal
 *   is then half of the lines at the speed of all and half at that of the others.
 */
export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const problem = quotaProblem();
  if (problem !== null) throw new Error(`This bench needs control groups: ${problem}.`);
  const cluster = createCluster();
  const made: Quota[] = [];
  const bareGroups: Quota[] = [];
  const runs: BenchRun[] = [];
  try {
    const controller = await cluster.startController({ name: 'controller' });
    const machines: Machine[] = [];
    for (const percent of quotas) {
      const bareGroup = createQuota(`bare-${percent}`);
      made.push(bareGroup);
      bareGroup.limit(percent);
      bareGroups.push(bareGroup);
      const name = `worker-${percent}`;
      const quota = createQuota(name);
      made.push(quota);
      machines.push({ name, percent, quota, node: await startWorker(cluster, controller, name, quota) });
    }
    const file = path.join(cluster.directory, 'lines');
    const lines = Array.from({ length: records }, (_, index) => `${index}\n`).join('');
    writeFileSync(file, lines);
    const put = await runCovey(controller, ['artifacts', 'put', file, '--name', 'lines', '--json']);
    if (put.code !== 0) throw new Error(`covey artifacts put: ${put.stderr}`);

    for (let round = 0; round < rounds; round += 1) {
      await ready(controller);
      for (const { quota, percent } of machines) quota.limit(percent);
      log(`round ${round + 1} of ${rounds}: the bare program ...`);
      const speeds = await bare(cluster.directory, round, bareGroups);
      const figures = Object.fromEntries(speeds.map((speed, index) => [`perS${quotas[index]}`, speed]));
      runs.push({ side: 'bare', figures });

      log('auto ...');
      runs.push({ side: 'auto', figures: { s: await job(controller, lines, () => Promise.resolve()) } });

      const victim = machines[round % machines.length];
      if (!victim) throw new Error('there are no machines');
      log(`${victim.name} is killed half-way ...`);
      const killed = await job(controller, lines, async () => void (await victim.node.crash()));
      runs.push({ side: 'killed', figures: { s: killed, without: victim.percent } });
      for (const { quota } of machines) quota.unlimited();
      const { name, quota, node } = victim;
      victim.node = await startWorker(cluster, controller, name, quota, node.dataDirectory);
    }
  } finally {
    for (const quota of made) quota.unlimited();
    await cluster.close();
    for (const quota of made) await quota.remove();
  }
  const of = (side: string, figure: string): number =>
    median(runs.filter((one) => one.side === side).map(({ figures }) => figures[figure] ?? NaN));
  const speed = (percent: number): number => of('bare', `perS${percent}`);
  const all = quotas.reduce((sum, percent) => sum + speed(percent), 0);
  const rated = runs.map(({ side, figures }): BenchRun => {
    if (side === 'bare') return { side, figures };
    const { s = NaN, without } = figures;
    const half = records / 2;
    const idealS = half / all + half / (without === undefined ? all : all - speed(without));
    return { side, figures: { ...figures, idealS, factor: s / idealS } };
  });
  const factor = (side: string): number =>
    median(rated.filter((one) => one.side === side).map(({ figures }) => figures['factor'] ?? NaN));
  return {
    name: 'balance',
    ratio: factor('auto'),
    ratioOf:
      'time / ideal (sum of the speeds of machines with 100, 50 and 25 % of a processor); lower is better',
    ours: of('auto', 's'),
    theirs: records / all,
    unit: 's',
    runs: rated,
    more: { killedRatio: factor('killed') },
    targets: { ratio: { atMost: 1.1 }, killedRatio: { atMost: 1.25 } },
    machine: describeMachine(),
  };
}

async function startWorker(
  cluster: Cluster,
  controller: RunningController,
  name: string,
  quota: Quota,
  again?: string,
): Promise<RunningNode> {
  const dataDirectory = again ?? path.join(cluster.directory, name);
  if (again === undefined) {
    mkdirSync(dataDirectory, { mode: 0o700 });
    const config = { lend: { kinds: { commands: true } } };
    writeFileSync(path.join(dataDirectory, 'config.json'), JSON.stringify(config), { mode: 0o600 });
  }
  return cluster.startWorker({
    name,
    dataDirectory,
    prefix: quota.prefix,
    readyMs: startMs,
    ...(again === undefined ? { join: await controller.invite() } : {}),
  });
}

async function ready({ client }: RunningController): Promise<void> {
  await waitFor(
    'all workers to be ready',
    async () => {
      const { nodes } = await client.call('nodes');
      return nodes.filter(({ status }) => status === 'ready').length === quotas.length;
    },
    startMs,
  );
}

/** Lines per second of the bare program in each of the groups, all at once. */
async function bare(directory: string, round: number, groups: readonly Quota[]): Promise<number[]> {
  const body = path.join(directory, 'bare.sh');
  writeFileSync(body, script);
  const programs = groups.map((quota, index) =>
    startProcess({
      label: `bare-${round}-${index}`,
      argv: [...quota.prefix, '/bin/sh', '-c', `seq 1 1000000 | timeout ${bareMs / 1_000} /bin/sh ${body}`],
    }),
  );
  await Promise.all(programs.map(({ exited }) => exited));
  return programs.map((program) => (program.stdout().match(/\n/g)?.length ?? 0) / (bareMs / 1_000));
}

/** Seconds from the submission to the result; `halfWay` is done once when half of it is. */
async function job(
  controller: RunningController,
  lines: string,
  halfWay: () => Promise<void>,
): Promise<number> {
  const { client } = controller;
  const startedAt = Date.now();
  const { id } = await client.call('submitJob', {
    body: {
      kind: 'map',
      script,
      dataset: { artifact: 'lines', format: 'text' },
      // As much as may be done twice, and does no harm.
      speculative: true,
    },
  });
  let half = false;
  const view = await waitFor<JobView | null>(
    'the job',
    async () => {
      const found = await client.call('job', { params: { job: id } });
      if (!half && found.units.done >= records / 2) {
        half = true;
        await halfWay();
      }
      return found.finishedAt === null ? null : found;
    },
    jobMs,
    200,
  );
  const [output] = view.result?.artifacts ?? [];
  if (view.status !== 'done' || !output)
    throw new Error(`the job is ${view.status}: ${JSON.stringify(view.error)}`);
  const response = await fetch(`${controller.api}/api/artifacts/${output.id}/content`, {
    headers: { authorization: `Bearer ${controller.token}` },
  });
  if ((await response.text()) !== lines) throw new Error('the result is not what was put in');
  return ((view.finishedAt ?? NaN) - startedAt) / 1_000;
}
