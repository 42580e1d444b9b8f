import type { ErrorBody } from '../errors.ts';
import type { ArtifactId } from '../lib/ids.ts';

/** Main process <-> hashing process. Types only: both ends are the same build on a private channel. */
export type HasherCommand =
  /** Everything about these files, in this order. */
  | { readonly type: 'digest'; readonly operation: number; readonly paths: readonly string[] }
  /** A file that grows from its start: `advance` says how much of it is there for good. */
  | { readonly type: 'follow'; readonly operation: number; readonly path: string }
  | { readonly type: 'advance'; readonly operation: number; readonly bytes: number }
  /** All of it is there; answered by `followed`. */
  | { readonly type: 'finish'; readonly operation: number; readonly bytes: number }
  /** Which of these chunks of a file are what they should be. */
  | {
      readonly type: 'compare';
      readonly operation: number;
      readonly path: string;
      readonly bytes: number;
      readonly chunks: readonly (ArtifactId | null)[];
    }
  /** Each chunk, if it is still what it should be, into another file. */
  | { readonly type: 'copy'; readonly operation: number; readonly copies: readonly ChunkCopy[] }
  | { readonly type: 'cancel'; readonly operation: number };

export interface ChunkCopy {
  readonly sha256: ArtifactId;
  readonly bytes: number;
  readonly from: { readonly path: string; readonly offset: number };
  readonly to: { readonly path: string; readonly offset: number };
}

export type HasherEvent =
  | {
      readonly type: 'digested';
      readonly operation: number;
      readonly digests: readonly { bytes: number; sha256: ArtifactId; chunks: readonly ArtifactId[] }[];
    }
  | { readonly type: 'followed'; readonly operation: number; readonly sha256: ArtifactId }
  /** Indexes of chunks that are not. */
  | { readonly type: 'compared'; readonly operation: number; readonly wrong: readonly number[] }
  /** Indexes of copies that could not be made. */
  | { readonly type: 'copied'; readonly operation: number; readonly failed: readonly number[] }
  | { readonly type: 'failed'; readonly operation: number; readonly error: ErrorBody };
