import { setImmediate as otherWork } from 'node:timers/promises';
import type { JobId, NodeId } from '#shared/lib/ids.ts';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { JobResult } from '#shared/domain/job.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Artifacts } from '../artifacts/artifacts.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { acceptedTask } from '../state/apply-reports.ts';
import type { JobRecord, PartitionRecord } from '../state/job-state.ts';
import type { JobStore } from '../state/sqlite/job-store.ts';
import { combine, type Combination, type PartitionResult } from './kinds/combine.ts';

export interface CollectorOptions {
  readonly runtime: Pick<Runtime, 'state' | 'dispatch' | 'onTurn'>;
  readonly store: Pick<JobStore, 'result'>;
  readonly artifacts: Pick<Artifacts, 'fetch' | 'addReference' | 'dropReferences' | 'concatenate'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Brings home what tasks have made and makes one result of it: what is `fetching` is fetched into the controller's
 * own store, what is `collecting` is combined. Each piece of work is known by partition and epoch, so that it is
 * begun once; after a restart what is still `fetching` or `collecting` is begun again. A store without room fails the
 * job at once; when it is tried again, what was not fetched yet is.
 */
export interface Collector {
  /** Looks at all jobs; afterwards turns of the runtime say which have changed. */
  start(): void;
  /** Gives up what runs. Nothing is lost: it is begun again at the next start. */
  close(): void;
}

const fetchesAtOnce = 8;
/** Partial results that are read between two looks at what else there is to do: some milliseconds. */
const readsAtOnce = 256;

function hereIsNoRoom(code: string): boolean {
  return code === 'artifact_quota' || code === 'disk_full';
}

export function createCollector(options: CollectorOptions): Collector {
  const { runtime, store, artifacts, clock, logger } = options;
  const stop = new AbortController();
  const busy = new Set<string>();
  const waiting: Array<() => Promise<void>> = [];
  let running = 0;

  const next = (): void => {
    while (running < fetchesAtOnce && !stop.signal.aborted) {
      const fetch = waiting.shift();
      if (!fetch) return;
      running += 1;
      void fetch().finally(() => {
        running -= 1;
        next();
      });
    }
  };

  const look = (job: JobRecord): void => {
    const { id } = job.definition;
    if (job.tally.counts.fetching > 0 && !job.course.ending) {
      for (const partition of job.partitions) if (partition.phase === 'fetching') fetchSoon(job, partition);
      next();
    }
    if (job.course.phase === 'collecting' && !busy.has(id)) {
      busy.add(id);
      void collect(job).finally(() => {
        busy.delete(id);
        // It may have been told to end and tried again meanwhile.
        const now = runtime.state.jobs.get(id);
        if (now && !stop.signal.aborted) look(now);
      });
    }
  };

  const fetchSoon = (job: JobRecord, partition: PartitionRecord): void => {
    const jobId = job.definition.id;
    const task = acceptedTask(partition);
    const { index } = partition;
    if (!task) return;
    const { epoch, nodeId } = task;
    const key = `${jobId}.${index}.${epoch}`;
    if (busy.has(key)) return;
    busy.add(key);
    waiting.push(async () => {
      const ref = { jobId, index, epoch };
      try {
        // It may have waited long for its turn.
        if (!isWanted(ref)) return;
        await fetchResult(jobId, index, nodeId);
        if (stop.signal.aborted) return;
        runtime.dispatch({ type: 'partitions-fetched', at: clock.now(), partitions: [ref] });
      } catch (error) {
        if (stop.signal.aborted) return;
        const body = CoveyError.from(error).toBody();
        logger.warn('a result could not be fetched', { job: jobId, index, reason: body.message });
        if (hereIsNoRoom(body.code)) {
          // Made again it would find none either. What is done stays, and with it where the rest is.
          runtime.dispatch({ type: 'job-failed', at: clock.now(), jobId, error: body });
          return;
        }
        runtime.dispatch({ type: 'partition-fetch-failed', at: clock.now(), partition: ref, error: body });
      } finally {
        busy.delete(key);
      }
    });
  };

  const fetchResult = async (jobId: JobId, index: number, from: NodeId): Promise<void> => {
    const result = store.result(jobId, index);
    if (result === null) {
      throw new CoveyError('artifact_unreachable', `The result of partition ${index} is not there.`);
    }
    for (const { name, ...stake } of result.artifacts) {
      await artifacts.fetch(stake, name, from, stop.signal);
      keepFor(jobId, stake);
    }
  };

  /** At once: what nobody needs may be collected. A job that was removed meanwhile needs nothing any more. */
  const keepFor = (jobId: JobId, stake: ArtifactStake): void => {
    if (runtime.state.jobs.has(jobId)) artifacts.addReference(jobId, [stake.id]);
  };

  /** Whether the result is still to be fetched: not once the job was told to end, or another attempt has begun. */
  const isWanted = (ref: { jobId: JobId; index: number; epoch: number }): boolean => {
    const job = runtime.state.jobs.get(ref.jobId);
    const partition = job?.partitions[ref.index];
    if (!job || job.course.ending || partition?.phase !== 'fetching') return false;
    return acceptedTask(partition)?.epoch === ref.epoch;
  };

  /** Not when it was tried again meanwhile, and has other results. */
  const isAsItWas = ({ definition, partitions }: JobRecord): boolean =>
    !stop.signal.aborted && runtime.state.jobs.get(definition.id)?.partitions === partitions;

  const collect = async (job: JobRecord): Promise<void> => {
    const { definition } = job;
    const jobId = definition.id;
    try {
      const missing = job.tally.counts.failed + job.tally.counts.cancelled;
      const combination = await combine(definition, resultsOf(job), missing);
      const result: JobResult =
        combination.how === 'given' ? combination.result : await concatenated(jobId, combination, missing);
      if (isAsItWas(job)) runtime.dispatch({ type: 'result-collected', at: clock.now(), jobId, result });
    } catch (error) {
      if (!isAsItWas(job)) return;
      const body = CoveyError.from(error).toBody();
      runtime.dispatch({ type: 'job-failed', at: clock.now(), jobId, error: body });
    }
  };

  async function* resultsOf({ definition, partitions }: JobRecord): AsyncIterable<PartitionResult> {
    const done = partitions.filter(({ phase }) => phase === 'done');
    // Shares by hand are cut side by side: the input's order is that of the ranges.
    done.sort((a, b) => (a.range?.from ?? a.index) - (b.range?.from ?? b.index) || a.index - b.index);
    for (const [count, { index, range }] of done.entries()) {
      if (count % readsAtOnce === readsAtOnce - 1) await otherWork();
      stop.signal.throwIfAborted();
      const result = store.result(definition.id, index);
      if (result === null) {
        throw new CoveyError('internal_error', `The result of partition ${index} is not in the database.`);
      }
      yield { index, units: range && range.to - range.from, result };
    }
  }

  const concatenated = async (
    jobId: JobId,
    { parts, name, refused }: Extract<Combination, { how: 'concatenate' }>,
    missing: number,
  ): Promise<JobResult> => {
    const stake = await artifacts.concatenate(
      parts.map(({ id }) => id),
      name,
      stop.signal,
    );
    keepFor(jobId, stake);
    const artifact = { ...stake, name };
    return { value: null, artifacts: [artifact], missing, ...(refused > 0 ? { refused } : {}) };
  };

  runtime.onTurn(({ before, after, events }) => {
    if (stop.signal.aborted) return;
    for (const event of events) {
      if (event.type === 'job-removed') artifacts.dropReferences(event.jobId);
    }
    if (before.jobs === after.jobs) return;
    for (const [id, job] of after.jobs) if (before.jobs.get(id) !== job) look(job);
  });

  return {
    start() {
      for (const job of runtime.state.jobs.values()) look(job);
    },
    close: () => stop.abort(new CoveyError('shutting_down', 'The controller ends.')),
  };
}
