import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { manifestFiles } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ControllerFrame, WorkerFrame } from '#shared/protocol/session.ts';
import { createArtifactFetcher } from '../../src-main/nodejs/artifacts/fetcher.ts';
import type { Hasher } from '../../src-main/nodejs/artifacts/hasher.ts';
import { materialise } from '../../src-main/nodejs/artifacts/materialise.ts';
import { createSharedWork } from '../../src-main/nodejs/artifacts/shared-work.ts';
import type { ArtifactStore } from '../../src-main/nodejs/artifacts/store.ts';
import { takeInFile, takeInTree } from '../../src-main/nodejs/artifacts/take-in.ts';
import type { Transport } from '../../src-main/nodejs/transport/transport.ts';
import { throttled } from '../runtime/throttle.ts';
import type { ArtifactCache } from './cache.ts';
import { openKnownArtifacts, type KnownArtifact } from './known.ts';
import { createWanted } from './wanted.ts';

type FrameOf<T extends ControllerFrame['type']> = Extract<ControllerFrame, { type: T }>;

export interface ArtifactCacheOptions {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
  /** The store is the controller's, in the same process: nothing is evicted or reported here. */
  readonly shared: boolean;
  readonly transport: Pick<Transport, 'readArtifact' | 'addArtifactGrant'>;
  /** What the owner lends of the disk for artifacts; null: as much as there is. */
  readonly quotaBytes: () => number | null;
  /** false: there is no session. */
  readonly send: (frame: WorkerFrame) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface SessionArtifactCache extends ArtifactCache {
  /** A session has begun: the controller is told what is here. */
  onWelcome(): void;
  onFrame(frame: FrameOf<'artifact-sources' | 'artifact-grant' | 'artifacts-free'>): void;
  close(): void;
}

const reportEveryMs = 500;
const perFrame = 4_096;
/** What the owner's own programs need of the disk. */
const reserveBytes = 256 * 1024 * 1024;
/** An output that the controller has not asked for by then will not be asked for. */
const keptMs = 24 * 3_600_000;
/** Use is written down at most this often. */
const usedEveryMs = 60_000;

export async function createArtifactCache(options: ArtifactCacheOptions): Promise<SessionArtifactCache> {
  const { store, hasher, clock, logger } = options;
  const isWhole = async ({ id, kind }: ArtifactStake): Promise<boolean> =>
    kind === 'file' ? store.file(id) !== null : (await store.tree(id)) !== null;
  const known = await openKnownArtifacts(join(store.directory, 'known'), isWhole);
  const fetcher = createArtifactFetcher({ store, hasher, transport: options.transport });
  const wanted = createWanted(options.send);
  const fetching = createSharedWork<void>();
  /** In use or on their way, by how many. */
  const held = new Map<ArtifactId, number>();
  /** What is being fetched will need this much. */
  let comingBytes = 0;
  let told: ReadonlySet<ArtifactId> | null = null;

  const report = throttled(() => {
    if (options.shared) return;
    const ids = new Set(known.list().map(({ id }) => id));
    const before = told ?? new Set<ArtifactId>();
    const added = [...ids].filter((id) => !before.has(id));
    const removed = [...before].filter((id) => !ids.has(id));
    let whole = told === null;
    for (let from = 0; whole || from < Math.max(added.length, removed.length); from += perFrame) {
      const frame = {
        type: 'artifacts-held',
        whole,
        added: added.slice(from, from + perFrame),
        removed: removed.slice(from, from + perFrame),
      } as const;
      if (!options.send(frame)) return;
      whole = false;
    }
    told = ids;
  }, reportEveryMs);

  const hold = (id: ArtifactId): (() => void) => {
    held.set(id, (held.get(id) ?? 0) + 1);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const left = (held.get(id) ?? 1) - 1;
      if (left > 0) held.set(id, left);
      else held.delete(id);
    };
  };
  const use = async (stake: ArtifactStake, kept = false): Promise<void> => {
    const { id, kind, bytes } = stake;
    const before = known.get(id);
    const at = clock.now();
    if (before && !before.free && at - before.usedAt < usedEveryMs && (before.kept || !kept)) return;
    await known.put({ id, kind, bytes, kept: kept || (before?.kept ?? false), free: false, usedAt: at });
    report.call();
  };

  const lackingBytes = async (bytes: number): Promise<number> => {
    const { bavail, bsize } = await statfs(store.directory);
    const quota = options.quotaBytes();
    const room = bavail * bsize - reserveBytes;
    return bytes - Math.min(room, quota === null ? Infinity : quota - store.usedBytes - comingBytes);
  };
  const filesOf = async ({ id, kind }: KnownArtifact): Promise<ArtifactId[]> => {
    if (kind === 'file') return [id];
    const manifest = await store.manifest(id).catch(() => null);
    return manifest ? manifestFiles(manifest).map(({ sha256 }) => sha256) : [];
  };
  const evict = async (artifact: KnownArtifact): Promise<void> => {
    const files = await filesOf(artifact);
    await known.drop(artifact.id);
    if (artifact.kind === 'tree') await store.removeTree(artifact.id);
    const others = new Set((await Promise.all(known.list().map(filesOf))).flat());
    for (const file of files) if (!others.has(file) && !held.has(file)) await store.removeFile(file);
    report.call();
  };
  /** Makes room by what is least needed. @throws CoveyError `disk_full` */
  const ensureRoom = async (bytes: number): Promise<void> => {
    if (options.shared) return;
    const candidates = known
      .list()
      .filter(({ id, kept, usedAt }) => !held.has(id) && (!kept || usedAt + keptMs < clock.now()))
      .sort((a, b) => Number(b.free) - Number(a.free) || a.usedAt - b.usedAt);
    for (const artifact of candidates) {
      if ((await lackingBytes(bytes)) <= 0) return;
      logger.info('an artifact makes room for another', { artifact: artifact.id.slice(0, 12) });
      await evict(artifact);
    }
    const lacking = await lackingBytes(bytes);
    if (lacking <= 0) return;
    throw new CoveyError(
      'disk_full',
      `This machine has no room for ${Math.ceil(bytes / 1e6)} MB: ${Math.ceil(lacking / 1e6)} MB more than it lends are needed.`,
    );
  };

  const ensure = async (
    stake: ArtifactStake,
    signal: AbortSignal,
    onProgress: Parameters<ArtifactCache['ensure']>[2],
  ): Promise<void> => {
    if (await isWhole(stake)) return use(stake);
    await fetching.run(stake.id, signal, async (stop) => {
      await ensureRoom(stake.bytes);
      comingBytes += stake.bytes;
      try {
        await fetcher.fetch({
          stake,
          sources: (asking) => wanted.ask(stake.id, asking),
          signal: stop,
          onProgress: (progress) => onProgress?.(progress),
        });
      } finally {
        comingBytes -= stake.bytes;
      }
    });
    if (!(await isWhole(stake))) {
      throw new CoveyError('artifact_unreachable', `${stake.id.slice(0, 12)} was evicted while it came.`);
    }
    await use(stake);
  };

  return {
    async ensure(stake, signal, onProgress) {
      if (stake.kind === 'tree') {
        throw new CoveyError('artifact_invalid', `${stake.id.slice(0, 12)} is a tree, and a file is needed.`);
      }
      const release = hold(stake.id);
      try {
        await ensure(stake, signal, onProgress);
        return { path: store.filePath(stake.id), release };
      } catch (error) {
        release();
        throw error;
      }
    },
    async materialise(stake, target, signal, onProgress) {
      const release = hold(stake.id);
      try {
        await ensure(stake, signal, onProgress);
        await materialise(store, stake, target, signal);
      } finally {
        release();
      }
    },
    async addFile(path, signal) {
      const stake = await takeInFile(store, hasher, path, signal);
      await use(stake, true);
      return stake;
    },
    async addTree(directory, signal) {
      const stake = await takeInTree(store, hasher, directory, signal);
      await use(stake, true);
      return stake;
    },
    onWelcome() {
      told = null;
      report.call();
    },
    onFrame(frame) {
      switch (frame.type) {
        case 'artifact-sources':
          return wanted.answered(frame);
        case 'artifact-grant': {
          const { grant: token, artifact, peer, ttlMs } = frame;
          return options.transport.addArtifactGrant({ token, artifact, peer, ttlMs });
        }
        case 'artifacts-free':
          for (const id of frame.artifacts) {
            const artifact = known.get(id);
            if (!artifact) continue;
            known.put({ ...artifact, kept: false, free: true }).catch((error: unknown) => {
              logger.warn('an artifact could not be marked', { reason: CoveyError.from(error).message });
            });
          }
      }
    },
    close() {
      report.cancel();
    },
  };
}
