import { setTimeout as delay } from 'node:timers/promises';
import { apply } from '../../src-main/controller/state/apply.ts';
import { commandWork } from '../../src-main/controller/state/job-fixtures.ts';
import type { JobDefinition, JobRecord } from '../../src-main/controller/state/job-state.ts';
import { emptyState } from '../../src-main/controller/state/state.ts';
import { jobSpecSchema } from '../../src-main/shared/domain/job-spec.ts';
import type { JobId } from '../../src-main/shared/lib/ids.ts';
import type { RunningController } from '../support/cluster.ts';

const partitionsEach = 20;
/** Twenty machines with two processors each do ten tasks of four seconds in a second: half a job. */
const submitEveryMs = 2_000;
const firstJobs = 12;

/** Jobs that are over: as many as the controller keeps. */
export function jobsOfOld(count: number, now: number): Map<JobId, JobRecord> {
  const jobs = new Map<JobId, JobRecord>();
  for (let number = 0; number < count; number += 1) {
    const at = now - (count - number) * 1_000;
    const definition = definitionOf(number, at);
    const { id } = definition;
    const submitted = { type: 'job-submitted', at, definition, distribution: { mode: 'auto' } } as const;
    const cancelled = { type: 'job-cancel-requested', at: at + 500, jobId: id } as const;
    const job = apply(apply(emptyState(at), submitted), cancelled).jobs.get(id);
    if (job) jobs.set(id, { ...job, course: { ...job.course, phase: endOf(number) } });
  }
  return jobs;
}

function endOf(number: number): 'done' | 'failed' | 'cancelled' {
  if (number % 20 === 0) return 'failed';
  return number % 3 === 0 ? 'cancelled' : 'done';
}

function definitionOf(number: number, createdAt: number): JobDefinition {
  const spec = jobSpecSchema.parse({ kind: 'command', command: ['work'], requires: { os: 'win32' } });
  return {
    id: `j-${String(number).padStart(8, '0')}` as JobId,
    name: `${number % 3 === 0 ? 'render' : 'tidy up'} ${number}`,
    kind: 'command',
    spec,
    work: commandWork,
    index: null,
    total: 2,
    unit: 'items',
    division: { mode: 'counted', count: 2, ranged: false },
    demand: { cpus: 1, memoryBytes: 0, wholeNode: false },
    place: { nodes: null, os: 'win32', arch: null, kernel: null, commands: true, network: false },
    retry: { attempts: 3, backoffMs: 1_000, exitCodes: null },
    timeoutMs: 60_000,
    exclusive: false,
    speculative: false,
    priority: 0,
    gang: null,
    notes: [],
    createdAt,
  };
}

/** Submits jobs as fast as the machines do them, so that some always run. @returns how many were submitted */
export async function causeJobs(controller: RunningController, signal: AbortSignal): Promise<number> {
  const startedAt = performance.now();
  let submitted = 0;
  while (!signal.aborted) {
    const name = `now ${submitted}`;
    const spec = jobSpecSchema.parse({
      kind: 'command',
      name,
      command: ['work'],
      partitions: partitionsEach,
      requires: { memoryBytes: 0 },
    });
    await controller.client.call('submitJob', { body: spec });
    submitted += 1;
    // Against the clock, so that what was slow once is made up for.
    const aheadMs = (submitted - firstJobs) * submitEveryMs - (performance.now() - startedAt);
    if (aheadMs > 0) await delay(aheadMs, undefined, { signal }).catch(() => undefined);
  }
  return submitted;
}
