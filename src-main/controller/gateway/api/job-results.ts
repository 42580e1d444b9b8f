import { ARTIFACT_MAX_TREE_ENTRIES, type TreeEntry, type TreeManifest } from '#shared/domain/artifact.ts';
import type { JobView } from '#shared/domain/job.ts';
import { resultPaths } from '#shared/domain/result-paths.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactService } from '../../artifacts/artifact-service.ts';

/** Names are looked at all at once, which takes milliseconds for a thousand. */
const mostArtifacts = 20_000;

/**
 * All artifacts of a finished job's result as one folder, in their order.
 * @throws CoveyError `job_not_finished`, `artifact_not_found` when it has none, `job_too_large` when they have more
 *   entries than a folder may have, or are too many
 */
export async function resultsFolder(
  artifacts: Pick<ArtifactService, 'open'>,
  { name, status, finishedAt, result }: Pick<JobView, 'name' | 'status' | 'finishedAt' | 'result'>,
): Promise<TreeManifest> {
  if (finishedAt === null) {
    throw new CoveyError(
      'job_not_finished',
      `${name} is ${status}: its results are there when it is finished.`,
    );
  }
  const made = result?.artifacts ?? [];
  if (made.length === 0) throw new CoveyError('artifact_not_found', `${name} has no files or folders.`);
  const tooMany = (count: number): CoveyError =>
    new CoveyError(
      'job_too_large',
      `${name} has made more than ${count} files: "covey jobs get" brings them.`,
    );
  if (made.length > mostArtifacts) throw tooMany(mostArtifacts);
  const paths = resultPaths(made.map((artifact) => artifact.name));
  const entries: TreeEntry[] = [];
  const add = (entry: TreeEntry): void => {
    if (entries.length >= ARTIFACT_MAX_TREE_ENTRIES) throw tooMany(ARTIFACT_MAX_TREE_ENTRIES);
    entries.push(entry);
  };
  for (const [index, { id, kind, bytes }] of made.entries()) {
    const path = paths[index] ?? id;
    if (kind === 'file') {
      add({ type: 'file', path, bytes, sha256: id, executable: false });
      continue;
    }
    add({ type: 'directory', path });
    const { manifest } = await artifacts.open(id);
    for (const entry of manifest?.entries ?? []) add({ ...entry, path: `${path}/${entry.path}` });
  }
  return { version: 1, entries };
}
