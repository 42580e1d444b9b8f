import type { ArtifactView } from '#shared/domain/artifact.ts';

/** What a clean-up now would take, and what a later one could. Artifacts that share content free less. */
export function cleanUp(artifacts: readonly ArtifactView[], now: number) {
  const unneeded = artifacts.filter(({ collectableAt }) => collectableAt !== null);
  const due = unneeded.filter(({ collectableAt }) => (collectableAt ?? 0) <= now);
  const later = unneeded.filter(({ collectableAt }) => (collectableAt ?? 0) > now);
  const bytesOf = (list: readonly ArtifactView[]): number => list.reduce((sum, { bytes }) => sum + bytes, 0);
  const times = later.flatMap(({ collectableAt }) => collectableAt ?? []);
  return {
    due,
    dueBytes: bytesOf(due),
    later,
    laterBytes: bytesOf(later),
    nextAt: times.length === 0 ? null : Math.min(...times),
  };
}
