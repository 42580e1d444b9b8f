import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';
import { namingFullDisk } from '../disk-full.ts';
import { openComing, type Coming } from './coming.ts';
import { chunkCount, chunkLength } from './digest.ts';
import type { Hasher } from './hasher.ts';
import type { SourcePool } from './source-pool.ts';
import { parseChunkList, type ArtifactStore } from './store.ts';

export interface FetchFileContext {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
  readonly pool: SourcePool;
  readonly signal: AbortSignal;
  /** More of it is here; negative: it was not what it should be. */
  readonly onBytes: (bytes: number) => void;
}

/** Chunks that are asked for at once. */
const chunksPerPart = 2;

/**
 * One file into the store:
 *
 * 1. what an earlier attempt has left, and chunks that other files here have, need not come again;
 * 2. the rest comes from several sources at once, in order, and is hashed as far as there is no gap;
 * 3. where the whole is not what it should be, the digests of its chunks tell which are wrong: those come again,
 *    from others than who sent them where there are any;
 * 4. where it still is not, somebody lies, perhaps about the digests: all of it comes again from one source alone,
 *    then from the next, until one has told the truth or all have failed.
 *
 * The list of chunks is a source's word: what is copied or kept by it is proved by the whole, or not used.
 */
export async function fetchFile(context: FetchFileContext, id: ArtifactId, bytes: number): Promise<void> {
  const { store, hasher, pool, signal } = context;
  if (store.file(id)) return;
  const folder = await store.incoming(`fetch-${id}`);
  const path = join(folder, 'data');
  const count = chunkCount(bytes);
  let done = false;
  const coming = await openComing(join(folder, 'have'), path, bytes);
  const follower = count > 1 ? hasher.follow(path) : null;
  try {
    const listFrom = (others: ReadonlySet<NodeId>): Promise<readonly ArtifactId[]> =>
      count > 1
        ? chunkListOf(context, id, count, join(folder, 'chunks'), others)
        : Promise.resolve([id].slice(0, count));
    let list = await listFrom(new Set());
    if (count > 1) await copyKnown(context, coming, path, list, bytes);
    context.onBytes(coming.bytes());
    const senders = new Map<number, NodeId>();
    const alone = new Map<NodeId, string>();
    let avoid = new Set<NodeId>();
    for (let round = 1; ; round += 1) {
      await receive(context, {
        id,
        path,
        bytes,
        coming,
        senders,
        avoid,
        onPrefix: (to) => follower?.advance(to),
      });
      if (round === 1 && follower) {
        if ((await follower.finish(bytes, signal)) === id) break;
      } else {
        // A second look at what was read before it was corrected needs a new start.
        const [digest] = await hasher.digest([path], signal);
        if (digest?.sha256 === id) {
          list = digest.chunks;
          break;
        }
      }
      if (count === 0) throw new CoveyError('artifact_corrupt', `${id.slice(0, 12)} is not an empty file.`);
      const located = count > 1 && round === 1 ? await hasher.compare(path, bytes, list, signal) : [];
      for (const index of located) {
        const sender = senders.get(index);
        if (sender) avoid.add(sender);
      }
      let wrong: readonly number[] = located;
      if (located.length === 0) {
        const next = pool.sources.find(({ nodeId }) => !alone.has(nodeId));
        if (next === undefined) {
          const from = alone.size > 0 ? ` from ${[...alone.values()].join(', ')}` : '';
          throw new CoveyError(
            'artifact_corrupt',
            `What came for ${id.slice(0, 12)}${from} is something else.`,
          );
        }
        alone.set(next.nodeId, next.name);
        const others = pool.sources.map(({ nodeId }) => nodeId).filter((nodeId) => nodeId !== next.nodeId);
        avoid = new Set(others);
        list = await listFrom(avoid);
        wrong = Array.from({ length: count }, (_, index) => index);
      }
      for (const index of wrong) {
        await coming.unmark(index);
        context.onBytes(-chunkLength(bytes, index));
      }
    }
    await store.adopt(path, id, bytes, list);
    done = true;
  } catch (error) {
    throw namingFullDisk(error, store.directory);
  } finally {
    follower?.close();
    // What is there of a large file is of use to the next attempt.
    if (done || count <= 1) await rm(folder, { recursive: true, force: true });
  }
}

async function chunkListOf(
  { pool }: FetchFileContext,
  id: ArtifactId,
  count: number,
  path: string,
  avoid: ReadonlySet<NodeId>,
): Promise<readonly ArtifactId[]> {
  return pool.use(async (source) => {
    await source.read({ what: 'chunks', file: id }, path);
    const list = parseChunkList(await readFile(path));
    if (list.length === count) return list;
    throw new CoveyError(
      'artifact_corrupt',
      `${source.name} sent ${list.length} digests for ${count} chunks.`,
    );
  }, avoid);
}

/** From other files of the store. */
async function copyKnown(
  { store, hasher, signal }: FetchFileContext,
  coming: Coming,
  path: string,
  list: readonly ArtifactId[],
  bytes: number,
): Promise<void> {
  const known = list.flatMap((sha256, index) => {
    const from = coming.has(index) ? null : store.chunks.find(sha256);
    if (from?.bytes !== chunkLength(bytes, index)) return [];
    const to = { path, offset: index * ARTIFACT_CHUNK_BYTES };
    return [
      { index, copy: { sha256, bytes: from.bytes, from: { path: from.path, offset: from.offset }, to } },
    ];
  });
  if (known.length === 0) return;
  const failed = new Set(
    await hasher.copy(
      known.map(({ copy }) => copy),
      signal,
    ),
  );
  for (const [at, { index, copy }] of known.entries()) {
    if (failed.has(at)) store.chunks.forget(copy.sha256);
    else await coming.mark(index);
  }
}

interface Receiving {
  readonly id: ArtifactId;
  readonly path: string;
  readonly bytes: number;
  readonly coming: Coming;
  readonly senders: Map<number, NodeId>;
  readonly avoid: ReadonlySet<NodeId>;
  readonly onPrefix: (bytes: number) => void;
}

async function receive({ pool, onBytes }: FetchFileContext, receiving: Receiving): Promise<void> {
  const { id, path, bytes, coming } = receiving;
  const count = chunkCount(bytes);
  let next = 0;
  let stopped = false;
  /** The next chunks that are missing, without a gap between them. */
  const takePart = (): { from: number; to: number } | null => {
    while (next < count && coming.has(next)) next += 1;
    const from = next;
    while (next < count && next - from < chunksPerPart && !coming.has(next)) next += 1;
    return next > from ? { from, to: next } : null;
  };
  receiving.onPrefix(coming.prefix());
  const lane = async (): Promise<void> => {
    for (let part = takePart(); part && !stopped; part = takePart()) {
      const { from, to } = part;
      const offset = from * ARTIFACT_CHUNK_BYTES;
      const length = Math.min(bytes, to * ARTIFACT_CHUNK_BYTES) - offset;
      await pool.use(async (source) => {
        await source.read({ what: 'bytes', file: id, offset, length }, path);
        for (let index = from; index < to; index += 1) receiving.senders.set(index, source.nodeId);
      }, receiving.avoid);
      for (let index = from; index < to; index += 1) await coming.mark(index);
      onBytes(length);
      receiving.onPrefix(coming.prefix());
    }
  };
  const lanes = Array.from({ length: Math.min(pool.width, Math.ceil(count / chunksPerPart)) }, lane);
  try {
    await Promise.all(lanes);
  } finally {
    stopped = true;
    await Promise.allSettled(lanes);
  }
}
