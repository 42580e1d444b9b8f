import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { TransferProgress } from '#shared/protocol/requests.ts';

/** A file of the cache in use: it is not evicted until it is released. */
export interface HeldArtifact {
  /** Read-only, whole and verified: may be mapped into memory, must not be written. */
  readonly path: string;
  /** Idempotent. */
  release(): void;
}

/**
 * The artifacts on this machine: fetched from whoever has them, verified by chunk and as a whole, kept as a cache
 * within what the owner lends.
 */
export interface ArtifactCache {
  /**
   * A file artifact, fetched if it is not here. Several calls for one artifact share the work.
   * @throws CoveyError `artifact_invalid` for a tree, `artifact_unreachable` (nobody has it within the time for
   *   that), `artifact_corrupt`, `disk_full`, `cancelled`
   */
  ensure(
    stake: ArtifactStake,
    signal: AbortSignal,
    onProgress?: (progress: TransferProgress) => void,
  ): Promise<HeldArtifact>;
  /**
   * Puts a writable copy of a file or tree at `target`, which must not exist (its parent must). Rejects as
   * `ensure` does and leaves nothing behind.
   */
  materialise(
    stake: ArtifactStake,
    target: string,
    signal: AbortSignal,
    onProgress?: (progress: TransferProgress) => void,
  ): Promise<void>;
  /**
   * Takes an output in: a copy, kept until the controller has it (`artifacts-free`), also over a restart. Links are
   * refused, not followed.
   * @throws CoveyError `artifact_invalid` (not a regular file or directory, changed while it was read, a name that
   *   no tree may have), `disk_full`, `cancelled`
   */
  addFile(path: string, signal: AbortSignal): Promise<ArtifactStake>;
  addTree(directory: string, signal: AbortSignal): Promise<ArtifactStake>;
}
