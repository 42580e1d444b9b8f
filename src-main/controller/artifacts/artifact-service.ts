import { readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { createReadStream, createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { z } from 'zod';
import type { artifactListQuerySchema, artifactListSchema } from '#shared/api/jobs.ts';
import {
  artifactTitle,
  type ArtifactStake,
  type ArtifactView,
  type TreeManifest,
} from '#shared/domain/artifact.ts';
import { manifestFiles } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { ArtifactId, JobId, NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ControllerFrame, WorkerFrame } from '#shared/protocol/session.ts';
import { sizeText } from '#shared/lib/size-text.ts';
import { createArtifactFetcher } from '../../nodejs/artifacts/fetcher.ts';
import type { Hasher } from '../../nodejs/artifacts/hasher.ts';
import { createSharedWork } from '../../nodejs/artifacts/shared-work.ts';
import type { ArtifactStore } from '../../nodejs/artifacts/store.ts';
import { namingFullDisk } from '../../nodejs/disk-full.ts';
import type { Transport } from '../../nodejs/transport/transport.ts';
import type { ArtifactRecordStore, ArtifactRow } from '../state/sqlite/artifact-store.ts';
import type { JobArtifacts } from '../jobs/job-artifacts.ts';
import type { Artifacts } from './artifacts.ts';
import { collect } from './collect.ts';
import { listArtifacts } from './listing.ts';
import { createOffers, type OffersOptions } from './offers.ts';
import { createArtifactRecords } from './records.ts';
import { createUploads, type UploadBody, type UploadView } from './uploads.ts';

type FrameOf<T extends WorkerFrame['type']> = Extract<WorkerFrame, { type: T }>;

export interface ArtifactServiceOptions {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
  readonly records: ArtifactRecordStore;
  readonly transport: Pick<Transport, 'readArtifact' | 'addArtifactGrant'>;
  readonly self: OffersOptions['self'];
  readonly send: OffersOptions['send'];
  readonly member: OffersOptions['member'];
  readonly rttMs: OffersOptions['rttMs'];
  readonly broadcast: (frame: ControllerFrame) => void;
  /** Most that the store may hold now; null: what the disk has, but for a tenth of it. */
  readonly quotaBytes: () => number | null;
  /** What the record of this job says of artifacts; null: there is none. */
  readonly job: (jobId: JobId) => JobArtifacts | null;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long an artifact stays after nothing needs it any more. */
  readonly graceMs?: number;
}

/** All of `Artifacts`, and what the API and the sessions need. */
export interface ArtifactService extends Artifacts {
  list(query: z.output<typeof artifactListQuerySchema>): Promise<z.output<typeof artifactListSchema>>;
  startUpload(body: UploadBody): Promise<UploadView>;
  putChunk(uploadId: string, chunk: ArtifactId, pieces: readonly Buffer[]): Promise<void>;
  finishUpload(uploadId: string, signal: AbortSignal): Promise<ArtifactView>;
  /** @throws CoveyError `artifact_not_found` */
  remove(ref: string): void;
  collectNow(): Promise<{ removed: number; freedBytes: number }>;
  /**
   * Room in the store for what its own machine's tasks make there, kept until what is returned is called (idempotent).
   * @throws CoveyError `artifact_quota`
   */
  room(bytes: number): Promise<() => void>;
  /** To be read from; used from now on. @throws CoveyError `artifact_not_found`, `artifact_corrupt` */
  open(ref: string): Promise<{ readonly row: ArtifactRow; readonly manifest: TreeManifest | null }>;
  filePath(id: ArtifactId): string;
  onWanted(nodeId: NodeId, frame: FrameOf<'artifact-wanted'>): void;
  onHeld(nodeId: NodeId, frame: FrameOf<'artifacts-held'>): void;
  onGone(nodeId: NodeId): void;
  close(): void;
}

const defaultGraceMs = 3_600_000;
const collectEveryMs = 10 * 60_000;
/** What others of this machine need of the disk. */
const reserveBytes = 256 * 1024 * 1024;
const maxValueBytes = 64 * 1024 * 1024;

export function createArtifactService(options: ArtifactServiceOptions): ArtifactService {
  const { store, hasher, clock, logger } = options;
  const graceMs = options.graceMs ?? defaultGraceMs;
  const now = (): number => clock.now();
  const records = createArtifactRecords(options.records, graceMs, now);
  // A controller that was killed between the two has kept artifacts for a job that it never recorded.
  const lost = records.releaseLost((jobId) => options.job(jobId) !== null);
  if (lost > 0) logger.info('artifacts were kept for jobs that are not there', { jobs: lost });
  const offers = createOffers(options);
  const fetcher = createArtifactFetcher({ store, hasher, transport: options.transport });
  const fetching = createSharedWork<void>();
  let collecting: Promise<{ removed: number; freedBytes: number }> | null = null;
  /** Of what is being brought in, apart from uploads. */
  let reservedBytes = 0;
  let roomTurn: Promise<unknown> = Promise.resolve();

  const quota = async (): Promise<number> => {
    const set = options.quotaBytes();
    if (set !== null) return set;
    const { bavail, bsize } = await statfs(store.directory);
    return Math.floor((store.usedBytes + bavail * bsize) * 0.9);
  };
  const freeBytes = async (): Promise<number> => {
    const { bavail, bsize } = await statfs(store.directory);
    const limit = await quota();
    const pending = uploads.pending();
    return Math.min(
      bavail * bsize - reserveBytes - reservedBytes - pending.comingBytes,
      limit - store.usedBytes - reservedBytes - pending.bytes,
    );
  };
  const runCollection = async (wantedBytes: number): Promise<{ removed: number; freedBytes: number }> => {
    const { removed, freedBytes } = await collect({
      store,
      records,
      uploads,
      isFetching: (folderName) => fetcher.isFetching(folderName),
      graceMs,
      now: now(),
      wantedBytes,
    });
    for (let from = 0; from < removed.length; from += 4_096) {
      options.broadcast({ type: 'artifacts-free', artifacts: removed.slice(from, from + 4_096) });
    }
    return { removed: removed.length, freedBytes };
  };
  const collectOnce = (wantedBytes = 0): Promise<{ removed: number; freedBytes: number }> =>
    (collecting ??= runCollection(wantedBytes).finally(() => {
      collecting = null;
    }));
  /** One after the other: each sees what the one before has reserved. */
  const reserve = async (bytes: number): Promise<void> => {
    let free = await freeBytes();
    for (let last = -Infinity; free < bytes && free > last;) {
      last = free;
      // One that is under way was not told how much is wanted.
      await collecting?.catch(() => undefined);
      await collectOnce(bytes - free);
      free = await freeBytes();
    }
    if (bytes <= free) {
      reservedBytes += bytes;
      return;
    }
    throw new CoveyError(
      'artifact_quota',
      `This needs ${sizeText(bytes)} of the controller's store, which has room for ${sizeText(Math.max(0, free))}. Remove artifacts, then "covey artifacts gc".`,
      {
        reasons: [{ code: 'quota', message: 'room', neededBytes: bytes, availableBytes: Math.max(0, free) }],
      },
    );
  };
  const room = async (bytes: number): Promise<() => void> => {
    const turn = roomTurn.then(() => reserve(bytes));
    roomTurn = turn.catch(() => undefined);
    await turn;
    let held = bytes;
    return () => {
      reservedBytes -= held;
      held = 0;
    };
  };
  const withRoom = async <T>(bytes: number, work: () => Promise<T>): Promise<T> => {
    const release = await room(bytes);
    try {
      return await work();
    } finally {
      release();
    }
  };
  const uploads = createUploads({
    store,
    hasher,
    withRoom,
    onWhole: ({ stake, files, name }) => void records.add(stake, files, name, true),
    now,
  });

  const resultOf = ({ id }: ArtifactRow): Pick<ArtifactView, 'resultOf'> => {
    for (const jobId of records.jobs(id)) {
      const job = options.job(jobId);
      const name = job?.resultName(id);
      if (job && name !== undefined) return { resultOf: { jobId, jobName: job.name, name } };
    }
    return {};
  };
  const titleOf = (row: ArtifactRow): string => artifactTitle({ name: row.name, ...resultOf(row) });
  const find = (ref: string): ArtifactRow => records.find(ref, titleOf);
  const view = (row: ArtifactRow): ArtifactView => ({
    id: row.id,
    kind: row.kind,
    name: row.name,
    bytes: row.bytes,
    files: row.files,
    createdAt: row.createdAt,
    lastUsedAt: row.lastUsedAt,
    pinned: row.pinned,
    jobs: records.jobs(row.id),
    ...resultOf(row),
    holders: offers
      .holders(row.id)
      .map((nodeId) => ({ nodeId, nodeName: options.member(nodeId)?.name ?? nodeId.slice(0, 12) })),
    collectableAt: records.collectableAt(row),
  });
  const get = (id: ArtifactId): ArtifactRow => records.get(id) ?? find(id);
  const isWhole = async ({ id, kind }: ArtifactStake): Promise<boolean> =>
    kind === 'file' ? store.file(id) !== null : (await store.tree(id)) !== null;
  const filesOf = async ({ id, kind }: ArtifactStake): Promise<ArtifactId[]> => {
    if (kind === 'file') return [id];
    const manifest = await store.tree(id);
    if (!manifest) throw new CoveyError('artifact_corrupt', `${id.slice(0, 12)} did not stay whole.`);
    return manifestFiles(manifest).map(({ sha256 }) => sha256);
  };
  /** A file of the store's `incoming` becomes an artifact. */
  const settle = async (path: string, name: string, signal: AbortSignal): Promise<ArtifactStake> => {
    const [digest] = await hasher.digest([path], signal);
    if (!digest) throw new CoveyError('internal_error', 'A file was hashed without a result.');
    await store.adopt(path, digest.sha256, digest.bytes, digest.chunks);
    const stake = { id: digest.sha256, kind: 'file', bytes: digest.bytes } as const;
    records.add(stake, 1, name, false);
    return stake;
  };
  const inFolder = async <T>(work: (path: string) => Promise<T>): Promise<T> => {
    const folder = await store.incoming();
    try {
      return await work(join(folder, 'data'));
    } catch (error) {
      throw namingFullDisk(error, store.directory);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };

  const timer = setInterval(() => {
    collectOnce().catch((error: unknown) => {
      logger.warn('artifacts could not be collected', { reason: CoveyError.from(error).message });
    });
  }, collectEveryMs);
  timer.unref();

  return {
    resolve(ref) {
      const { id, kind, bytes } = find(ref);
      return { id, kind, bytes };
    },
    view: (id) => view(get(id)),
    addReference: (jobId: JobId, ids) => records.refer(jobId, ids),
    dropReferences: (jobId: JobId) => void records.release(jobId),
    async fetch(stake, name, fromNode, signal) {
      await fetching.run(stake.id, signal, async (stop) => {
        if (!(await isWhole(stake))) {
          const sources = async () => [
            ...offers.sourceAt(fromNode, stake.id),
            ...offers
              .sourcesFor(options.self.nodeId, stake.id, false)
              .filter(({ nodeId }) => nodeId !== fromNode),
          ];
          await withRoom(stake.bytes, () =>
            fetcher.fetch({ stake, sources, signal: stop, onProgress: () => undefined }),
          );
        }
        const files = await filesOf(stake);
        if (records.get(stake.id)) records.used(stake.id);
        else {
          // Nothing may be collected between this look and the record.
          store.touch(files);
          records.add(stake, files.length, name, false);
        }
        // It was kept there for this.
        options.send(fromNode, { type: 'artifacts-free', artifacts: [stake.id] });
      });
    },
    concatenate: (ids, name, signal) =>
      inFolder(async (path) => {
        const rows = ids.map(get);
        const tree = rows.find(({ kind }) => kind === 'tree');
        if (tree)
          throw new CoveyError('artifact_invalid', `${tree.name} is a tree: only files can be joined.`);
        return withRoom(
          rows.reduce((sum, { bytes }) => sum + bytes, 0),
          async () => {
            await writeFile(path, '', { mode: 0o600 });
            for (const { id } of rows) {
              await pipeline(createReadStream(store.filePath(id)), createWriteStream(path, { flags: 'a' }), {
                signal,
              });
            }
            return settle(path, name, signal);
          },
        );
      }),
    async readValue(id, maxBytes) {
      const row = get(id);
      const limit = Math.min(maxBytes, maxValueBytes);
      if (row.kind === 'tree' || row.bytes > limit) {
        throw new CoveyError('artifact_invalid', `${row.name} is no file of at most ${limit} bytes.`);
      }
      return readFile(store.filePath(id));
    },
    addBytes: (bytes, name) =>
      inFolder((path) =>
        withRoom(bytes.length, async () => {
          await writeFile(path, bytes, { mode: 0o600 });
          return settle(path, name, new AbortController().signal);
        }),
      ),
    holders: (id) => offers.holders(id),

    async list(query) {
      const facts = {
        jobs: ({ id }: ArtifactRow) => records.jobs(id).length,
        holders: ({ id }: ArtifactRow) => offers.holders(id).length,
        collectableAt: (row: ArtifactRow) => records.collectableAt(row),
        title: titleOf,
        isSomeones: (row: ArtifactRow) =>
          row.pinned ||
          records.jobs(row.id).some((jobId) => {
            const job = options.job(jobId);
            return job !== null && (job.isInput(row.id) || job.resultName(row.id) !== undefined);
          }),
      };
      const { rows, ...all } = listArtifacts(records.list(), query, facts, now());
      return { artifacts: rows.map(view), ...all, usedBytes: store.usedBytes, quotaBytes: await quota() };
    },
    startUpload: (body) => uploads.start(body),
    putChunk: (uploadId, chunk, pieces) => uploads.putChunk(uploadId, chunk, pieces),
    async finishUpload(uploadId, signal) {
      const { stake } = await uploads.finish(uploadId, signal);
      return view(get(stake.id));
    },
    remove: (ref) => records.unpin(find(ref).id),
    collectNow: () => collectOnce(),
    room,
    async open(ref) {
      const row = find(ref);
      records.used(row.id);
      const manifest = row.kind === 'tree' ? await store.tree(row.id) : null;
      if (row.kind === 'tree' ? !manifest : !store.file(row.id)) {
        throw new CoveyError(
          'artifact_corrupt',
          `Files of ${row.name} are missing in the controller's store.`,
        );
      }
      return { row, manifest };
    },
    filePath: (id) => store.filePath(id),

    onWanted(nodeId, { artifact }) {
      const row = records.get(artifact);
      if (row) records.used(artifact);
      offers.answer(
        nodeId,
        row ? { id: row.id, kind: row.kind, bytes: row.bytes } : unknownStake(artifact),
        row !== null,
      );
    },
    onHeld: (nodeId, { whole, added, removed }) => offers.told(nodeId, whole, added, removed),
    onGone: (nodeId) => offers.gone(nodeId),
    close() {
      clearInterval(timer);
      hasher.close();
    },
  };
}

/** A member may have it although it is not, or not yet, here. */
function unknownStake(id: ArtifactId): ArtifactStake {
  return { id, kind: 'file', bytes: 0 };
}
