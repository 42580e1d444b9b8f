import { failureLimit, timings } from '#shared/config.ts';
import { defaultJobPolicy, type JobPolicy } from './jobs/job-policy.ts';
import type { BackoffPolicy } from '#shared/lib/backoff.ts';

/** The scheduler's settings, passed in so that tests and users may choose others. */
export interface Policy {
  readonly lostMs: number;
  readonly stallMs: number;
  readonly stageStartMs: number;
  /** What runs on a machine whose owner wants it back may go on for so long. */
  readonly giveWayMs: number;
  readonly failureLimit: number;
  readonly failureWindowMs: number;
  readonly retry: BackoffPolicy;
  /** Share of a node's free memory that a plan leaves alone. */
  readonly headroomFraction: number;
  readonly jobs: JobPolicy;
}

export const defaultPolicy: Policy = {
  lostMs: timings.lostMs,
  stallMs: timings.stallMs,
  stageStartMs: timings.stageStartMs,
  giveWayMs: timings.giveWayMs,
  failureLimit,
  failureWindowMs: timings.failureWindowMs,
  retry: { firstMs: 500, maxMs: 15_000, factor: 4, jitter: 0 },
  headroomFraction: 0.2,
  jobs: defaultJobPolicy,
};
