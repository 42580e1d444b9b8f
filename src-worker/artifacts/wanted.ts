import type { ArtifactId } from '#shared/lib/ids.ts';
import type { ControllerFrame, WorkerFrame } from '#shared/protocol/session.ts';
import type { ArtifactSource } from '../../src-main/nodejs/artifacts/source-pool.ts';

/** Asks the controller where an artifact can be had. */
export interface Wanted {
  /** Empty: nowhere now, or the controller has not answered in time. */
  ask(artifact: ArtifactId, signal: AbortSignal): Promise<readonly ArtifactSource[]>;
  answered(frame: Extract<ControllerFrame, { type: 'artifact-sources' }>): void;
}

const answerMs = 10_000;

/** @param send false: there is no session */
export function createWanted(send: (frame: WorkerFrame) => boolean): Wanted {
  const waiting = new Map<ArtifactId, Set<(sources: readonly ArtifactSource[]) => void>>();
  return {
    ask: (artifact, signal) =>
      new Promise((resolve) => {
        const done = (sources: readonly ArtifactSource[]): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', onAbort);
          waiting.get(artifact)?.delete(done);
          resolve(sources);
        };
        const onAbort = (): void => done([]);
        const timer = setTimeout(done, answerMs, []);
        signal.addEventListener('abort', onAbort, { once: true });
        const all = waiting.get(artifact) ?? new Set();
        all.add(done);
        waiting.set(artifact, all);
        if (signal.aborted || !send({ type: 'artifact-wanted', artifact })) done([]);
      }),
    answered({ artifact, sources }) {
      const all = waiting.get(artifact.id);
      waiting.delete(artifact.id);
      for (const done of all ?? []) done(sources);
    },
  };
}
