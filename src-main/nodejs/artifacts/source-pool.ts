import { setTimeout as delay } from 'node:timers/promises';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactPart } from '#shared/host/transport.ts';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';
import type { Transport } from '../transport/transport.ts';

/** A machine that has an artifact, and our right to read it there. */
export interface ArtifactSource {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly addresses: readonly Address[];
  readonly grant: string;
}

/** A source in use. */
export interface OpenSource {
  readonly nodeId: NodeId;
  readonly name: string;
  /** See `Transport.readArtifact`. */
  read(part: ArtifactPart, path: string): Promise<number>;
}

/** The sources of one artifact: several are used at once, each for a few parts; one that fails is left out. */
export interface SourcePool {
  /**
   * Does `work` with the source that has the least to do; with another when that one fails, until there is none
   * and none comes for `patienceMs`.
   * @param avoid not these, as long as there are others
   */
  use<T>(work: (source: OpenSource) => Promise<T>, avoid?: ReadonlySet<NodeId>): Promise<T>;
  /** How many parts can be under way at once. */
  readonly width: number;
  /** Who is there now. */
  readonly sources: readonly Pick<ArtifactSource, 'nodeId' | 'name'>[];
}

export interface SourcePoolOptions {
  readonly transport: Pick<Transport, 'readArtifact'>;
  readonly artifact: ArtifactId;
  readonly sources: (signal: AbortSignal) => Promise<readonly ArtifactSource[]>;
  readonly patienceMs: number;
  /** A part that takes longer is asked for elsewhere, where there are others: whoever gives it may not want to. */
  readonly slowMs: number;
  readonly signal: AbortSignal;
}

/** Parts from one source at once: while one is being asked for, another is on its way. */
const perSource = 2;
const maxSources = 4;
const askAgainMs = 500;
const connectMs = 10_000;
const idleMs = 50;

interface Entry {
  readonly source: ArtifactSource;
  busy: number;
}

export function createSourcePool(options: SourcePoolOptions): SourcePool {
  const { signal, transport } = options;
  let entries: Entry[] = [];
  let asking: Promise<void> | null = null;
  let lastFailure: CoveyError | null = null;
  let lastGoodAt = performance.now();

  const ask = async (): Promise<void> => {
    // What has just failed would fail again.
    if (lastFailure) await delay(askAgainMs, undefined, { signal }).catch(() => undefined);
    const found = await options.sources(signal);
    entries = found.slice(0, maxSources).map((source) => ({ source, busy: 0 }));
    if (entries.length > 0) return;
    if (performance.now() - lastGoodAt > options.patienceMs) {
      const why = lastFailure ? `: ${lastFailure.message}` : ' now.';
      throw new CoveyError('artifact_unreachable', `No machine gives ${options.artifact.slice(0, 12)}${why}`);
    }
    await delay(askAgainMs, undefined, { signal }).catch(() => undefined);
  };
  /** Waits until a source can take another part. */
  const take = async (avoid: ReadonlySet<NodeId>): Promise<Entry> => {
    for (;;) {
      if (signal.aborted) throw CoveyError.from(signal.reason);
      if (entries.length === 0) {
        asking ??= ask().finally(() => {
          asking = null;
        });
        await asking;
        continue;
      }
      const liked = entries.filter(({ source }) => !avoid.has(source.nodeId));
      const [best] = (liked.length > 0 ? liked : entries).toSorted((a, b) => a.busy - b.busy);
      if (best && best.busy < perSource) {
        best.busy += 1;
        return best;
      }
      await delay(idleMs);
    }
  };

  return {
    get width() {
      return Math.max(1, entries.length || maxSources) * perSource;
    },
    get sources() {
      return entries.map(({ source }) => source);
    },
    async use(work, avoid = new Set()) {
      for (;;) {
        const entry = await take(avoid);
        const { source } = entry;
        const slow = new AbortController();
        const tooSlow = new CoveyError('artifact_unreachable', `${source.name} is too slow.`);
        const timer = entries.length > 1 ? setTimeout(() => slow.abort(tooSlow), options.slowMs) : undefined;
        const stop = AbortSignal.any([signal, slow.signal]);
        try {
          const result = await work({
            nodeId: source.nodeId,
            name: source.name,
            read: (part, path) =>
              transport.readArtifact(
                {
                  target: {
                    peer: source.nodeId,
                    peerName: source.name,
                    addresses: source.addresses,
                    timeoutMs: connectMs,
                  },
                  grant: source.grant,
                  part,
                  path,
                },
                stop,
              ),
          });
          lastGoodAt = performance.now();
          return result;
        } catch (thrown) {
          if (signal.aborted) throw CoveyError.from(signal.reason);
          const error = CoveyError.from(thrown);
          // Nothing that another source could do better.
          if (error.code === 'disk_full') throw error;
          lastFailure = error;
          entries = entries.filter((other) => other !== entry);
          if (performance.now() - lastGoodAt > options.patienceMs) throw error;
        } finally {
          clearTimeout(timer);
          entry.busy -= 1;
        }
      }
    },
  };
}
