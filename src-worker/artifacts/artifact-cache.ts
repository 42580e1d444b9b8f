import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { manifestFiles } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ControllerFrame, WorkerFrame } from '#shared/protocol/session.ts';
import { sizeText } from '#shared/lib/size-text.ts';
import { createArtifactFetcher } from '../../src-main/nodejs/artifacts/fetcher.ts';
import type { Hasher } from '../../src-main/nodejs/artifacts/hasher.ts';
import { materialise } from '../../src-main/nodejs/artifacts/materialise.ts';
import { createSharedWork } from '../../src-main/nodejs/artifacts/shared-work.ts';
import type { ArtifactStore } from '../../src-main/nodejs/artifacts/store.ts';
import { takeInFile, takeInTree } from '../../src-main/nodejs/artifacts/take-in.ts';
import type { Transport } from '../../src-main/nodejs/transport/transport.ts';
import type { LentDisk } from '../lend/lent-disk.ts';
import { throttled } from '../runtime/throttle.ts';
import type { ArtifactCache } from './cache.ts';
import { openKnownArtifacts, type KnownArtifact } from './known.ts';
import { createWanted } from './wanted.ts';

type FrameOf<T extends ControllerFrame['type']> = Extract<ControllerFrame, { type: T }>;

export interface ArtifactCacheOptions {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
  /** The store is the controller's, in the same process: nothing is evicted or reported here, and room is its to give. */
  readonly shared: false | ControllersRoom;
  readonly transport: Pick<Transport, 'readArtifact' | 'addArtifactGrant'>;
  /** What the owner lends of it. */
  readonly disk: LentDisk;
  /** false: there is no session. */
  readonly send: (frame: WorkerFrame) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ControllersRoom {
  /**
   * So many bytes of the controller's store, until what is returned is called.
   * @throws CoveyError `artifact_quota`
   */
  room(bytes: number): Promise<() => void>;
}

interface Coming {
  readonly stake: Pick<ArtifactStake, 'kind' | 'bytes'>;
  /** Of it, on the disk. */
  doneBytes: number;
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
/** What was broken off, and files of no artifact, may still be of use to who tries again. */
const leftoverMs = 24 * 3_600_000;
const orphanMs = 3_600_000;

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
  /** What is on its way. */
  const coming = new Set<Coming>();
  /** What lies there of fetches that were broken off. */
  let leftoverBytes = 0;
  let roomTurn: Promise<unknown> = Promise.resolve();
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
    // The controller has its own records of what is in its store.
    if (options.shared) return;
    const { id, kind, bytes } = stake;
    const before = known.get(id);
    const at = clock.now();
    if (before && !before.free && at - before.usedAt < usedEveryMs && (before.kept || !kept)) return;
    await known.put({ id, kind, bytes, kept: kept || (before?.kept ?? false), free: false, usedAt: at });
    report.call();
  };

  const comingBytes = (): number => {
    let sum = 0;
    // Of a tree, files that have come are in the store already.
    for (const { stake, doneBytes } of coming)
      sum += stake.kind === 'tree' ? stake.bytes - doneBytes : stake.bytes;
    return sum;
  };
  const heldBytes = (): number => store.usedBytes + comingBytes() + leftoverBytes;
  const lackingBytes = async (bytes: number): Promise<number> => {
    const { bavail, bsize } = await statfs(store.directory);
    let unwritten = 0;
    for (const { stake, doneBytes } of coming) unwritten += stake.bytes - doneBytes;
    const share = options.disk.shareOf('artifacts');
    const room = bavail * bsize - reserveBytes - unwritten;
    return bytes - Math.min(room, share === null ? Infinity : share - heldBytes());
  };
  const filesOf = async ({ id, kind }: KnownArtifact): Promise<ArtifactId[]> => {
    if (kind === 'file') return [id];
    const manifest = await store.manifest(id).catch(() => null);
    return manifest ? manifestFiles(manifest).map(({ sha256 }) => sha256) : [];
  };
  /** How many artifacts have each file. */
  const countUses = async (): Promise<Map<ArtifactId, number>> => {
    const uses = new Map<ArtifactId, number>();
    for (const artifact of known.list()) {
      for (const file of await filesOf(artifact)) uses.set(file, (uses.get(file) ?? 0) + 1);
    }
    return uses;
  };
  const dropLeftovers = async (olderThanMs: number): Promise<void> => {
    const isOver = (name: string): boolean => name.startsWith('fetch-') && !fetcher.isFetching(name);
    leftoverBytes = await store.sweepIncoming(isOver, olderThanMs);
  };
  /** What is in the store and of no artifact: its fetch, or the program, ended too early. */
  const dropOrphans = async (uses: ReadonlyMap<ArtifactId, number>): Promise<void> => {
    const before = clock.now() - orphanMs;
    for (const id of [...store.trees()]) {
      const addedAt = store.treeAddedAt(id) ?? Infinity;
      if (!known.get(id) && !held.has(id) && addedAt <= before) await store.removeTree(id);
    }
    for (const [id, { addedAt }] of [...store.files()]) {
      if (!uses.has(id) && !held.has(id) && addedAt <= before) await store.removeFile(id);
    }
  };
  const evict = async (artifact: KnownArtifact, uses: Map<ArtifactId, number>): Promise<void> => {
    logger.info('an artifact makes room for another', { artifact: artifact.id.slice(0, 12) });
    const files = await filesOf(artifact);
    await known.drop(artifact.id);
    if (artifact.kind === 'tree') await store.removeTree(artifact.id);
    for (const file of files) {
      const left = (uses.get(file) ?? 1) - 1;
      uses.set(file, left);
      if (left === 0 && !held.has(file)) await store.removeFile(file);
    }
    report.call();
  };
  /** By what is least needed, until it is enough or there is no more of that. */
  const makeRoom = async (isEnough: () => Promise<boolean>): Promise<void> => {
    if (await isEnough()) return;
    await dropLeftovers(0);
    const uses = await countUses();
    await dropOrphans(uses);
    const candidates = known
      .list()
      .filter(({ kept, usedAt }) => !kept || usedAt + keptMs < clock.now())
      .sort((a, b) => Number(b.free) - Number(a.free) || a.usedAt - b.usedAt);
    for (const { id } of candidates) {
      if (await isEnough()) return;
      const artifact = known.get(id);
      if (artifact && !held.has(id)) await evict(artifact, uses);
    }
  };
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = roomTurn.then(work);
    roomTurn = turn.catch(() => undefined);
    return turn;
  };
  /** Makes room, and keeps it until `drop`. @throws CoveyError `disk_full` */
  const reserve = async (
    stake: Coming['stake'],
  ): Promise<{ readonly coming: Coming; readonly drop: () => void }> => {
    const entry: Coming = { stake, doneBytes: 0 };
    if (options.shared) return { coming: entry, drop: await roomOf(options.shared, stake.bytes) };
    return inTurn(async () => {
      const { bytes } = stake;
      await makeRoom(async () => (await lackingBytes(bytes)) <= 0);
      const lacking = await lackingBytes(bytes);
      if (lacking > 0) {
        throw new CoveyError(
          'disk_full',
          `This machine has no room for ${sizeText(bytes)}: ${sizeText(lacking)} more than it lends are needed.`,
        );
      }
      coming.add(entry);
      return { coming: entry, drop: () => void coming.delete(entry) };
    });
  };

  const ensure = async (
    stake: ArtifactStake,
    signal: AbortSignal,
    onProgress: Parameters<ArtifactCache['ensure']>[2],
  ): Promise<void> => {
    if (await isWhole(stake)) return use(stake);
    await fetching.run(stake.id, signal, async (stop) => {
      const room = await reserve(stake);
      const releases: (() => void)[] = [];
      try {
        await fetcher.fetch({
          stake,
          sources: (asking) => wanted.ask(stake.id, asking),
          signal: stop,
          onFiles: (files) => releases.push(...files.map(hold)),
          onProgress(progress) {
            room.coming.doneBytes = progress.doneBytes;
            onProgress?.(progress);
          },
        });
        await use(stake);
      } finally {
        room.drop();
        for (const release of releases) release();
      }
    });
    if (!(await isWhole(stake))) {
      throw new CoveyError('artifact_unreachable', `${stake.id.slice(0, 12)} was evicted while it came.`);
    }
    await use(stake);
  };
  /** An output: its room is kept until it is known. */
  const takeIn = async (
    kind: ArtifactStake['kind'],
    work: (room: (bytes: number) => Promise<void>) => Promise<ArtifactStake>,
  ): Promise<ArtifactStake> => {
    let drop = (): void => undefined;
    try {
      const stake = await work(async (bytes) => {
        drop = (await reserve({ kind, bytes })).drop;
      });
      await use(stake, true);
      return stake;
    } finally {
      drop();
    }
  };

  if (!options.shared) {
    await dropLeftovers(leftoverMs);
    await dropOrphans(await countUses());
    options.disk.use('artifacts', {
      bytes: heldBytes,
      giveUp: (bytes) =>
        inTurn(async () => {
          const before = heldBytes();
          await makeRoom(async () => before - heldBytes() >= bytes);
        }),
    });
  }

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
    addFile: (path, signal) => takeIn('file', (room) => takeInFile(store, hasher, path, signal, room)),
    addTree: (directory, signal) =>
      takeIn('tree', (room) => takeInTree(store, hasher, directory, signal, room)),
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

/** The controller's refusal is, for a task, that of any machine that has no room. */
async function roomOf(controller: ControllersRoom, bytes: number): Promise<() => void> {
  try {
    return await controller.room(bytes);
  } catch (thrown) {
    const error = CoveyError.from(thrown);
    if (error.code !== 'artifact_quota') throw error;
    throw new CoveyError('disk_full', error.message, error.details, thrown);
  }
}
