import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { chunkLength } from './digest.ts';

/** Which stored file has a chunk of this content. What is on the disk is looked at again when it is copied. */
export interface ChunkIndex {
  add(file: ArtifactId, fileBytes: number, chunks: readonly ArtifactId[]): void;
  remove(file: ArtifactId): void;
  find(chunk: ArtifactId): { readonly path: string; readonly offset: number; readonly bytes: number } | null;
  /** It was not what it should be: it is not offered any more. */
  forget(chunk: ArtifactId): void;
}

export function createChunkIndex(pathOf: (file: ArtifactId) => string): ChunkIndex {
  const places = new Map<ArtifactId, { readonly file: ArtifactId; readonly index: number }>();
  const byFile = new Map<ArtifactId, { readonly bytes: number; readonly chunks: readonly ArtifactId[] }>();
  return {
    add(file, bytes, chunks) {
      byFile.set(file, { bytes, chunks });
      chunks.forEach((chunk, index) => {
        if (!places.has(chunk)) places.set(chunk, { file, index });
      });
    },
    remove(file) {
      for (const chunk of byFile.get(file)?.chunks ?? []) {
        if (places.get(chunk)?.file === file) places.delete(chunk);
      }
      byFile.delete(file);
    },
    find(chunk) {
      const place = places.get(chunk);
      const entry = place && byFile.get(place.file);
      if (!place || !entry) return null;
      return {
        path: pathOf(place.file),
        offset: place.index * ARTIFACT_CHUNK_BYTES,
        bytes: chunkLength(entry.bytes, place.index),
      };
    },
    forget: (chunk) => void places.delete(chunk),
  };
}
