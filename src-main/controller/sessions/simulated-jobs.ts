import { expect } from 'vitest';
import { jobId, definition } from '../state/job-fixtures.ts';
import type { JobDefinition, JobRecord } from '../state/job-state.ts';
import { tallyOf } from '../state/job-tally.ts';
import type { Simulation } from './simulated-covey.ts';

/** Of tests in simulated time: one job, and what has to be true of it whatever has happened. */

/** Mulberry32: small, good enough, the same everywhere. */
export function mulberry(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function submit(simulation: Simulation, overrides: Partial<JobDefinition> = {}): void {
  simulation.runtime.commit({
    type: 'job-submitted',
    at: simulation.now,
    definition: definition(overrides),
    distribution: { mode: 'auto' },
  });
}

export const job = (simulation: Simulation): JobRecord => {
  const found = simulation.runtime.state.jobs.get(jobId);
  if (!found) throw new Error('no job');
  return found;
};
export const over = (simulation: Simulation) => () =>
  ['collecting', 'failed', 'cancelled'].includes(job(simulation).course.phase);

/** Every unit is in exactly one accepted result, and nothing is left anywhere. */
export async function expectWhole(simulation: Simulation): Promise<void> {
  await simulation.until(() => simulation.tasksAtWorkers() === 0, 60_000);
  const { partitions, tally, definition: defined, course, preparation } = job(simulation);
  const ranges = partitions
    .map((partition) => {
      expect(simulation.accepted.get(`${jobId}.${partition.index}`)).toBe(1);
      const result = simulation.store.jobs.result(jobId, partition.index);
      if (partition.range) expect(result?.value).toEqual(partition.range);
      return partition.range;
    })
    .flatMap((range) => range ?? [])
    .sort((a, b) => a.from - b.from);
  let reached = 0;
  for (const { from, to } of ranges) {
    expect(from).toBe(reached);
    reached = to;
  }
  if (ranges.length > 0) expect(reached).toBe(course.total);
  for (const [, { active }] of tally.nodes) expect(active).toBe(0);
  const counted = tallyOf(defined, course, partitions, preparation);
  expect(tally.counts).toEqual(counted.counts);
  expect(tally.doneUnits).toBe(counted.doneUnits);
  expect(tally.rest).toEqual(counted.rest);
}
