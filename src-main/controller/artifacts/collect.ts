import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { manifestFiles } from '#shared/domain/tree-manifest.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { ArtifactStore } from '../../nodejs/artifacts/store.ts';
import type { ArtifactRecords } from './records.ts';
import type { Uploads } from './uploads.ts';

/** What is left in `incoming` by something that was broken off and never went on. */
const staleIncomingMs = 48 * 3_600_000;

/**
 * Removes what nothing needs any more: artifacts whose time has come, then files and manifests of no artifact, then
 * what was never finished. Files that came within the grace time stay: they may be part of what is just being made.
 * @returns the ids of artifacts, and the bytes of all files, that are gone
 */
export async function collect(options: {
  readonly store: ArtifactStore;
  readonly records: ArtifactRecords;
  readonly uploads: Uploads;
  readonly graceMs: number;
  readonly now: number;
  /** Collect what is not needed although its time has not come, oldest use first, until so many bytes are free. */
  readonly wantedBytes?: number;
}): Promise<{ readonly removed: readonly ArtifactId[]; readonly freedBytes: number }> {
  const { store, records, uploads, now } = options;
  await uploads.expire();
  const unneeded = records
    .list()
    .filter((row) => records.collectableAt(row) !== null)
    .sort((a, b) => a.lastUsedAt - b.lastUsedAt);
  const removed: ArtifactId[] = [];
  let wanted = options.wantedBytes ?? 0;
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
  for (const id of [...store.trees()]) {
    if (trees.has(id)) continue;
    const manifest = dropped.has(id) ? await store.manifest(id).catch(() => null) : null;
    for (const { sha256 } of manifest ? manifestFiles(manifest) : []) dropped.add(sha256);
    await store.removeTree(id);
  }
  let freedBytes = 0;
  for (const [id, { addedAt }] of [...store.files()]) {
    if (needed.has(id) || uploads.needs(id)) continue;
    if (dropped.has(id) || addedAt + options.graceMs <= now) freedBytes += await store.removeFile(id);
  }
  await sweepIncoming(store, uploads.folders(), now);
  return { removed, freedBytes };
}

async function sweepIncoming(store: ArtifactStore, used: ReadonlySet<string>, now: number): Promise<void> {
  const folder = join(store.directory, 'incoming');
  for (const name of await readdir(folder)) {
    if (used.has(name)) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(() => null);
    if (found && found.mtimeMs + staleIncomingMs <= now) await rm(path, { recursive: true, force: true });
  }
}
