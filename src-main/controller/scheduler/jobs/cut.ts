import type { JobPolicy } from './job-policy.ts';

/** However slow the machines are: records of partitions are kept in memory. */
const mostPartitions = 50_000;

export interface CutInput {
  readonly smallest: number;
  readonly largest: number;
  /** Units of the whole job. */
  readonly total: number;
  /** Units that are left for this machine: of its own share with a manual distribution. */
  readonly remaining: number;
  /** Of one task on this machine; null: not known yet. */
  readonly unitsPerS: number | null;
  /** Of all tasks that run at once on all machines that share in `remaining`, this one included. */
  readonly allUnitsPerS: number;
}

/**
 * How many units the next range gets (guided self-scheduling, Polychronopoulos and Kuck 1987, weighted by speed):
 * 1. Speed not known: a small probe.
 * 2. Half of this task's proportionate part of what is left, so that ranges get smaller toward the end and all
 *    machines end within about `shortestMs` of each other; never longer than `targetMs`, so that a machine which
 *    slows down holds little.
 */
export function cutUnits(input: CutInput, policy: JobPolicy): number {
  const { smallest, largest, remaining, unitsPerS } = input;
  const least = Math.max(smallest, 1, Math.ceil(input.total / mostPartitions));
  const bounded = (units: number): number =>
    Math.min(remaining, Math.max(least, Math.min(largest, Math.floor(units))));
  // 1.
  if (unitsPerS === null) return bounded(Math.min(input.total * policy.probeFraction, remaining / 4));
  // 2.
  const part = (remaining * unitsPerS) / Math.max(input.allUnitsPerS, unitsPerS) / 2;
  const longest = (unitsPerS * policy.targetMs) / 1000;
  const shortest = (unitsPerS * policy.shortestMs) / 1000;
  return bounded(Math.max(shortest, Math.min(longest, part)));
}
