import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactStake, TreeManifest } from '#shared/domain/artifact.ts';
import {
  canonicalManifest,
  checkManifest,
  manifestBytes,
  manifestFiles,
} from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { TransferProgress } from '#shared/protocol/requests.ts';
import type { Transport } from '../transport/transport.ts';
import { sha256 } from './digest.ts';
import { fetchFile, type FetchFileContext } from './fetch-file.ts';
import type { Hasher } from './hasher.ts';
import { createSourcePool, type ArtifactSource, type SourcePool } from './source-pool.ts';
import type { ArtifactStore } from './store.ts';

export interface FetchOptions {
  readonly stake: ArtifactStake;
  /** Asked at the start and again when all that it named have failed; empty: nobody has it now. */
  readonly sources: (signal: AbortSignal) => Promise<readonly ArtifactSource[]>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: TransferProgress) => void;
  /** The files of a tree, as soon as they are known: those that are here must stay. */
  readonly onFiles?: (files: readonly ArtifactId[]) => void;
}

/** Copies artifacts from other machines into the store: from several at once, verified, resumable. */
export interface ArtifactFetcher {
  /**
   * Resolves when it is in the store.
   * @throws CoveyError `artifact_unreachable` when nobody has given a byte for `patienceMs`, `artifact_corrupt`,
   *   `disk_full`, the signal's reason
   */
  fetch(options: FetchOptions): Promise<void>;
  /** Whether this is the directory in `incoming` of a file that is on its way. */
  isFetching(folderName: string): boolean;
}

export interface FetcherOptions {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
  readonly transport: Pick<Transport, 'readArtifact'>;
  /** How long nobody may give anything. */
  readonly patienceMs?: number;
  /** See `SourcePoolOptions`. */
  readonly slowMs?: number;
}

const defaultPatienceMs = 60_000;
const defaultSlowMs = 10 * 60_000;
/** Files of a tree at once; small ones are mostly round trips. */
const filesAtOnce = 8;

export function createArtifactFetcher(options: FetcherOptions): ArtifactFetcher {
  const { store } = options;
  /** Files on their way: two artifacts may have one in common. */
  const coming = new Map<ArtifactId, Promise<void>>();

  const bring = async (context: FetchFileContext, id: ArtifactId, bytes: number): Promise<void> => {
    for (let other = coming.get(id); other; other = coming.get(id)) {
      // Whoever fetches it may give up: then it is our turn.
      await untilOver(other, context.signal);
      if (!store.file(id)) continue;
      context.onBytes(bytes);
      return;
    }
    const work = fetchFile(context, id, bytes).finally(() => coming.delete(id));
    coming.set(id, work);
    await work;
  };

  const manifestOf = async (stake: ArtifactStake, pool: SourcePool): Promise<TreeManifest> => {
    const here = await store.manifest(stake.id).catch(() => null);
    if (here) return here;
    const folder = await store.incoming();
    const path = join(folder, 'manifest');
    try {
      return await pool.use(async (source) => {
        await source.read({ what: 'manifest' }, path);
        const text = await readFile(path, 'utf8');
        const checked = sha256(text) === stake.id ? checkManifest(JSON.parse(text)) : null;
        if (checked?.ok && canonicalManifest(checked.manifest) === text) return checked.manifest;
        throw new CoveyError(
          'artifact_corrupt',
          `${source.name} sent another list of files than was asked for.`,
        );
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };

  return {
    isFetching: (folderName) => coming.has(folderName.slice('fetch-'.length) as ArtifactId),
    async fetch({ stake, sources, signal, onProgress, onFiles }) {
      const progress = createProgress(stake.bytes, onProgress);
      const pool = createSourcePool({
        transport: options.transport,
        artifact: stake.id,
        sources,
        patienceMs: options.patienceMs ?? defaultPatienceMs,
        slowMs: options.slowMs ?? defaultSlowMs,
        signal,
      });
      const context = { store, hasher: options.hasher, pool, signal, onBytes: progress.add };
      if (stake.kind === 'file') {
        if (!store.file(stake.id)) await bring(context, stake.id, stake.bytes);
        return;
      }
      const manifest = await manifestOf(stake, pool);
      if (manifestBytes(manifest) !== stake.bytes) {
        throw new CoveyError(
          'artifact_corrupt',
          `The tree ${stake.id.slice(0, 12)} is of another size than was said.`,
        );
      }
      const all = manifestFiles(manifest).map(({ sha256: id }) => id);
      onFiles?.(all);
      store.touch(all);
      const files = new Map<ArtifactId, number>();
      for (const { sha256: id, bytes } of manifestFiles(manifest)) {
        if (store.file(id)) progress.add(bytes);
        else files.set(id, bytes);
      }
      const waiting = [...files];
      const lane = async (): Promise<void> => {
        for (let next = waiting.shift(); next; next = waiting.shift()) await bring(context, ...next);
      };
      const lanes = Array.from({ length: Math.min(filesAtOnce, waiting.length) }, lane);
      try {
        await Promise.all(lanes);
      } finally {
        waiting.length = 0;
        await Promise.allSettled(lanes);
      }
      await store.addManifest(manifest);
    },
  };
}

/** Waits for what runs, whatever comes of it. @throws the signal's reason */
async function untilOver(work: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw CoveyError.from(signal.reason);
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => reject(CoveyError.from(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    const over = (): void => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    };
    work.then(over, over);
  });
}

function createProgress(
  totalBytes: number,
  onProgress: (progress: TransferProgress) => void,
): { add: (bytes: number) => void } {
  const startedAt = performance.now();
  let doneBytes = 0;
  return {
    add(bytes) {
      doneBytes = Math.min(totalBytes, Math.max(0, doneBytes + bytes));
      const seconds = (performance.now() - startedAt) / 1_000;
      onProgress({ doneBytes, totalBytes, bytesPerS: seconds > 0 ? Math.round(doneBytes / seconds) : null });
    },
  };
}
