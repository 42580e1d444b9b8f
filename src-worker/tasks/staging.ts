import { chmod, mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { Work } from '#shared/domain/task.ts';
import { CoveyError } from '#shared/errors.ts';
import type { JobId } from '#shared/lib/ids.ts';
import type { ArtifactCache, HeldArtifact } from '../artifacts/cache.ts';

/** What the tasks of a job have in common on this machine, all of it here. */
export interface StagedJob {
  /** Kernels: elements, and the second vector. Else the dataset. */
  readonly input: string | null;
  readonly second: string | null;
  /** Copies of a program's inputs, to be seen read-only. */
  readonly mounts: readonly { readonly source: string; readonly path: string }[];
}

export interface Staging {
  /** What is here already, without waiting; null: `stage` it. */
  ready(jobId: JobId): StagedJob | null;
  /** Shared by all tasks of a job. Rejects as the artifact cache does; the next task tries again. */
  stage(jobId: JobId, work: Work): Promise<StagedJob>;
  /** Copies a program's inputs into one task's directory, where there is no sandbox to show them in. */
  copyInto(directory: string, work: Work, signal: AbortSignal): Promise<void>;
  /** No task needs it any more. */
  drop(jobId: JobId): void;
  close(): Promise<void>;
}

interface Entry {
  readonly staged: Promise<StagedJob>;
  readonly stopping: AbortController;
  readonly held: HeldArtifact[];
  ready: StagedJob | null;
  /** Copies were begun. */
  copies: boolean;
}

/** @param mounted programs see inputs through a sandbox, so that one copy is enough for all tasks */
export function createStaging(options: {
  readonly cache: ArtifactCache;
  /** Of this worker alone; there. */
  readonly directory: string;
  readonly mounted: boolean;
}): Staging {
  const { cache, mounted } = options;
  const jobs = new Map<JobId, Entry>();
  const directoryOf = (jobId: JobId): string => join(options.directory, jobId);
  /** Of a job of the same id that was dropped: its copies go before new ones are made. */
  const removals = new Map<JobId, Promise<void>>();

  const bring = async (jobId: JobId, work: Work, entry: Entry): Promise<StagedJob> => {
    const { signal } = entry.stopping;
    const hold = async (stake: ArtifactStake): Promise<string> => {
      const artifact = await cache.ensure(stake, signal);
      if (signal.aborted) {
        artifact.release();
        throw signal.reason as CoveyError;
      }
      entry.held.push(artifact);
      return artifact.path;
    };
    if (work.kind === 'kernel') {
      const [input, second] = await Promise.all([
        hold(work.input),
        work.second ? hold(work.second) : Promise.resolve(null),
      ]);
      return { input, second, mounts: [] };
    }
    const input = 'dataset' in work ? await hold(work.dataset.artifact) : null;
    if (!('program' in work) || !mounted || work.program.inputs.length === 0) {
      return { input, second: null, mounts: [] };
    }
    await removals.get(jobId);
    entry.copies = true;
    const mounts = work.program.inputs.map(({ path }, index) => ({
      source: join(directoryOf(jobId), String(index)),
      path,
    }));
    await mkdir(directoryOf(jobId), { recursive: true, mode: 0o700 });
    await Promise.all(
      work.program.inputs.map(async ({ artifact }, index) => {
        const target = join(directoryOf(jobId), String(index));
        await cache.materialise(artifact, target, signal);
        // A file has no right to be run of its own, and may well be the program.
        if (artifact.kind === 'file') await chmod(target, 0o555);
      }),
    );
    return { input, second: null, mounts };
  };

  const drop = (jobId: JobId): void => {
    const entry = jobs.get(jobId);
    if (!entry) return;
    jobs.delete(jobId);
    entry.stopping.abort(new CoveyError('cancelled', 'no task of its job is left'));
    const removal = entry.staged
      .catch(() => undefined)
      .then(async () => {
        for (const artifact of entry.held) artifact.release();
        if (entry.copies) await rm(directoryOf(jobId), { recursive: true, force: true });
      })
      .catch(() => undefined)
      .finally(() => {
        if (removals.get(jobId) === removal) removals.delete(jobId);
      });
    removals.set(jobId, removal);
  };

  return {
    ready: (jobId) => jobs.get(jobId)?.ready ?? null,
    stage(jobId, work) {
      const there = jobs.get(jobId);
      if (there) return there.staged;
      let begin: (staged: Promise<StagedJob>) => void = () => undefined;
      const entry: Entry = {
        staged: new Promise((resolve) => (begin = resolve)),
        stopping: new AbortController(),
        held: [],
        ready: null,
        copies: false,
      };
      jobs.set(jobId, entry);
      begin(bring(jobId, work, entry));
      entry.staged.then(
        (staged) => (entry.ready = staged),
        () => {
          if (jobs.get(jobId) === entry) drop(jobId);
        },
      );
      return entry.staged;
    },
    async copyInto(directory, work, signal) {
      if (mounted || !('program' in work)) return;
      for (const { artifact, path } of work.program.inputs) {
        const target = join(directory, path);
        await mkdir(dirname(target), { recursive: true, mode: 0o700 });
        await cache.materialise(artifact, target, signal);
        if (artifact.kind === 'file') await chmod(target, 0o755);
      }
    },
    drop,
    async close() {
      for (const jobId of [...jobs.keys()]) drop(jobId);
      await Promise.all(removals.values());
    },
  };
}
