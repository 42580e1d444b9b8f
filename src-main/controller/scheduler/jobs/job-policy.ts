import { timings } from '#shared/config.ts';

/** How jobs are scheduled; see `cut`, `dispatch` and `review` for what each is used for. */
export interface JobPolicy {
  /** Length that a range cut by measured speed is aimed at. */
  readonly targetMs: number;
  /** Ranges are not cut shorter than this, but for the last. */
  readonly shortestMs: number;
  /** The first range of a machine whose speed is not known: this part of the whole. */
  readonly probeFraction: number;
  /** Work for so long waits at a machine beyond what it runs, so that it never waits for a round trip. */
  readonly prefetchMs: number;
  readonly prefetchTasks: number;
  readonly taskLossMs: number;
  readonly taskLeaseMs: number;
  readonly taskGraceMs: number;
  readonly gangStartMs: number;
  /** After this controller's start its workers have so long to come back with their tasks. */
  readonly returnMs: number;
  /** A second copy when a partition takes so many times what it was expected to. */
  readonly stragglerFactor: number;
  readonly stragglerMs: number;
  /** Finished jobs that are kept, and partitions of all of them; each for so long, whatever comes. */
  readonly keptJobs: number;
  readonly keptPartitions: number;
  readonly keptMs: number;
}

export const defaultJobPolicy: JobPolicy = {
  targetMs: 4_000,
  shortestMs: 200,
  probeFraction: 1 / 2048,
  prefetchMs: 300,
  prefetchTasks: 512,
  taskLossMs: timings.taskLossMs,
  taskLeaseMs: timings.taskLeaseMs,
  taskGraceMs: timings.taskGraceMs,
  gangStartMs: timings.gangStartMs,
  returnMs: timings.lostMs,
  stragglerFactor: 2,
  stragglerMs: 2_000,
  keptJobs: 10_000,
  keptPartitions: 200_000,
  keptMs: 10 * 60_000,
};
