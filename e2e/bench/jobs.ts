import path from 'node:path';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { redisProgram, startBullmq } from './jobs-bullmq.ts';
import { startCovey } from './jobs-covey.ts';
import type { JobsSide } from './jobs-side.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

const partitions = 10_000;
const workers = 4;
const rounds = 5;
/** Single jobs on an idle system, a round and side. */
const singles = 100;

/** Debian installs them where they are missing. */
export const programs = ['redis-server'];

/**
 * 10,000 partitions that do nothing (a sum over one element each) on four workers, against BullMQ on Redis with 10,000
 * jobs that do nothing and four worker processes. Both sides are up all the time and take turns.
 *
 * - `perS`: from the beginning of asking to the end of the last one. What is done is on disk then here (FULL), and
 *   within a second there (appendfsync everysec).
 * - `cpuUs`: processor time for each, of the controller's main process or of Redis.
 * - `oneMs…`: a job of one partition on an idle system, from asking to its end: the way out to a worker and back.
 */
export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const directory = await mkdtemp(path.join(tmpdir(), 'covey-bench-jobs-'));
  const sides: { name: string; side: JobsSide; ones: number[] }[] = [];
  const runs: BenchRun[] = [];
  try {
    sides.push({ name: 'covey', side: await startCovey(partitions, workers), ones: [] });
    const redis = redisProgram();
    if (redis === null) log('redis-server is not installed: there is nothing to compare with');
    else sides.push({ name: 'bullmq', side: await startBullmq(redis, directory, workers), ones: [] });
    for (let round = 0; round <= rounds; round += 1) {
      log(round === 0 ? 'warm-up ...' : `round ${round} of ${rounds} ...`);
      for (const { name, side, ones } of round % 2 === 0 ? sides : sides.toReversed()) {
        const before = { cpuMs: side.cpuMs(), workersCpuMs: side.workersCpuMs() };
        const ms = await side.many(partitions);
        const cpuUs = ((side.cpuMs() - before.cpuMs) * 1_000) / partitions;
        const workersCpuUs = ((side.workersCpuMs() - before.workersCpuMs) * 1_000) / partitions;
        const own: number[] = [];
        for (let index = 0; index < singles; index += 1) own.push(await side.one());
        if (round === 0) continue;
        ones.push(...own);
        const figures = { perS: (partitions * 1_000) / ms, cpuUs, workersCpuUs, oneMs: median(own) };
        runs.push({ side: name, figures });
      }
    }
  } finally {
    for (const { side } of sides.toReversed()) await side.close();
    await rm(directory, { recursive: true, force: true });
  }
  const of = (name: string, figure: string): number =>
    median(runs.filter(({ side }) => side === name).map(({ figures }) => figures[figure] ?? NaN));
  const [ours, theirs] = sides;
  const more: Record<string, number> = { cpuUsPerPartition: of('covey', 'cpuUs') };
  for (const { name, ones } of sides) {
    more[`${name}OneMsP50`] = percentile(ones, 0.5);
    more[`${name}OneMsP99`] = percentile(ones, 0.99);
  }
  return {
    name: 'jobs',
    ratio: theirs ? of('covey', 'perS') / of('bullmq', 'perS') : null,
    ratioOf: 'covey / BullMQ on Redis, partitions (jobs) that do nothing per second; higher is better',
    ours: of(ours?.name ?? '', 'perS'),
    theirs: theirs ? of(theirs.name, 'perS') : null,
    unit: '/s',
    runs,
    more,
    targets: { ratio: { atLeast: 1 } },
    machine: describeMachine(),
  };
}

function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}
