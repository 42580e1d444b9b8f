import type { PartitionRecord } from '../../state/job-state.ts';

/** The clock went on by so much more than time did, or back (negative). `at`: what it showed then. */
export interface Leap {
  readonly at: number;
  readonly ms: number;
}

/** Milliseconds since that moment, epoch ms, as far as this process was there to listen. */
export type Since = (at: number) => number;

/**
 * Time that has passed for jobs: without what this process slept or stood still, for nobody was heard then, and
 * without what the clock was set by. A moment that lies ahead is of before the clock was set back, the last time at
 * least; after a while it does not lie ahead any more. What cannot be told makes it less and so delays, never hastens.
 * @param leaps the oldest first
 */
export function sinceBy(now: number, leaps: readonly Leap[]): Since {
  if (leaps.length === 0) return (at) => now - at;
  const back = leaps.findLast(({ ms }) => ms < 0);
  return (at) => {
    let passed = now - at;
    for (const leap of leaps) if (leap.ms > 0 && at <= leap.at - leap.ms) passed -= leap.ms;
    return back && at > now ? passed - back.ms : passed;
  };
}

/** The pause before the next attempt is over. It was set when the last attempt ended. */
export function isDue({ nextAttemptAt, tasks }: PartitionRecord, since: Since): boolean {
  if (nextAttemptAt === null) return true;
  const setAt = tasks.at(-1)?.endedAt ?? nextAttemptAt;
  return since(setAt) >= nextAttemptAt - setAt;
}
