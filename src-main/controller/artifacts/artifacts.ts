import type { ArtifactStake, ArtifactView } from '#shared/domain/artifact.ts';
import type { ArtifactId, JobId, NodeId } from '#shared/lib/ids.ts';

/**
 * What the controller knows of artifacts, and its own store of them. Every artifact that was put by a person or
 * accepted as a result is whole in this store; workers hold copies.
 */
export interface Artifacts {
  /**
   * @param ref an id, a prefix of one (8 digits or more), or a name that only one artifact has
   * @throws CoveyError `artifact_not_found`, `artifact_ambiguous`
   */
  resolve(ref: string): ArtifactStake;
  /** As people see it. @throws CoveyError `artifact_not_found` */
  view(id: ArtifactId): ArtifactView;
  /**
   * The job needs or made these: they are kept until `dropReferences`. On disk when it returns; an id that is
   * there already is not counted twice.
   * @throws CoveyError `artifact_not_found`
   */
  addReference(jobId: JobId, ids: readonly ArtifactId[]): void;
  dropReferences(jobId: JobId): void;
  /**
   * Copies what a worker made into this store and verifies it. Resolves when it is on disk; several calls for one
   * artifact share the work. At once when it is here.
   * @param name kept when it is new here
   * @throws CoveyError `artifact_unreachable`, `artifact_corrupt`, `artifact_quota`, `disk_full`, `cancelled`
   */
  fetch(stake: ArtifactStake, name: string, fromNode: NodeId, signal: AbortSignal): Promise<void>;
  /** One file of the bytes of others in this order. Rejects as `fetch` does. */
  concatenate(ids: readonly ArtifactId[], name: string, signal: AbortSignal): Promise<ArtifactStake>;
  /**
   * A small file's bytes.
   * @throws CoveyError `artifact_invalid` when it is a tree or larger than `maxBytes`
   */
  readValue(id: ArtifactId, maxBytes: number): Promise<Buffer>;
  /** A small file made by the controller itself. */
  addBytes(bytes: Uint8Array, name: string): Promise<ArtifactStake>;
  /** The nodes that have it whole, for placing work where its input is. Without the controller's own store. */
  holders(id: ArtifactId): readonly NodeId[];
}
