import { manifestFiles } from '#shared/domain/tree-manifest.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { ArtifactStore } from '../../nodejs/artifacts/store.ts';
import type { ArtifactRecords } from './records.ts';
import type { Uploads } from './uploads.ts';

/** What is left in `incoming` by something that was broken off and never went on. */
const staleIncomingMs = 48 * 3_600_000;
/** Where there is no room, uploads that nobody has gone on with for so long give way. */
const idleUploadMs = 3_600_000;

/**
 * Removes what nothing needs any more: artifacts whose time has come, then files and manifests of no artifact, then
 * what was never finished. Files and manifests that came, or that somebody has counted on (`ArtifactStore.touch`),
 * within the grace time stay: they may be part of what is just being made.
 * @returns the ids of artifacts, and the bytes of all files, that are gone
 */
export async function collect(options: {
  readonly store: ArtifactStore;
  readonly records: ArtifactRecords;
  readonly uploads: Uploads;
  /** See `ArtifactFetcher`. */
  readonly isFetching: (folderName: string) => boolean;
  readonly graceMs: number;
  readonly now: number;
  /** Collect what is not needed although its time has not come, oldest use first, until so many bytes are free. */
  readonly wantedBytes?: number;
}): Promise<{ readonly removed: readonly ArtifactId[]; readonly freedBytes: number }> {
  const { store, records, uploads, now } = options;
  let wanted = options.wantedBytes ?? 0;
  await uploads.expire(wanted > 0 ? idleUploadMs : undefined);
  const unneeded = records
    .list()
    .filter((row) => records.collectableAt(row) !== null)
    .sort((a, b) => a.lastUsedAt - b.lastUsedAt);
  const removed: ArtifactId[] = [];
  for (const row of unneeded) {
    const due = (records.collectableAt(row) ?? Infinity) <= now;
    if (!due && wanted <= 0) continue;
    records.drop(row.id);
    removed.push(row.id);
    wanted -= row.bytes;
  }

  const needed = new Set<ArtifactId>();
  const trees = new Set<ArtifactId>();
  for (const { id, kind } of records.list()) {
    needed.add(id);
    if (kind === 'file') continue;
    trees.add(id);
    const manifest = await store.manifest(id).catch(() => null);
    for (const { sha256 } of manifest ? manifestFiles(manifest) : []) needed.add(sha256);
  }
  const dropped = new Set(removed);
  // What was looked up above may be out of date by now: whoever has come to need a file has touched it.
  const mayGo = (id: ArtifactId, addedAt: number | undefined | null): boolean =>
    !records.get(id) && (addedAt ?? Infinity) + (dropped.has(id) ? 1 : options.graceMs) <= now;
  for (const id of [...store.trees()]) {
    if (trees.has(id)) continue;
    const manifest = dropped.has(id) ? await store.manifest(id).catch(() => null) : null;
    for (const { sha256 } of manifest ? manifestFiles(manifest) : []) dropped.add(sha256);
    if (mayGo(id, store.treeAddedAt(id))) await store.removeTree(id);
  }
  let freedBytes = 0;
  for (const id of [...store.files()].map(([file]) => file)) {
    if (needed.has(id) || uploads.needs(id)) continue;
    if (mayGo(id, store.file(id)?.addedAt)) freedBytes += await store.removeFile(id);
  }
  const folders = uploads.folders();
  await store.sweepIncoming((name) => !folders.has(name) && !options.isFetching(name), staleIncomingMs);
  return { removed, freedBytes };
}
