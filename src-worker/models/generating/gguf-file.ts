import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { encodeGgufHeader, type GgufInput, type TensorInput } from '#shared/gguf/encode.ts';

export interface TensorSource extends TensorInput {
  /** The tensor's bytes in pieces of any length; a piece may be reused after the next is asked for. */
  readonly data: () => Iterable<Uint8Array>;
}

/**
 * Writes a GGUF by way of a temporary file beside it, so that `path` is either whole or not there. Holds one
 * piece of one tensor in memory at a time. The parent directory is made.
 * @returns the length of the file
 */
export async function writeGgufFile(
  path: string,
  metadata: ReadonlyMap<string, GgufInput>,
  tensors: readonly TensorSource[],
  signal?: AbortSignal,
): Promise<number> {
  const encoded = encodeGgufHeader(metadata, tensors);
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.writing-${process.pid}`;
  const file = await open(temporary, 'w');
  try {
    await file.write(encoded.bytes, 0, encoded.bytes.length, 0);
    for (const [index, tensor] of tensors.entries()) {
      const place = encoded.tensors[index] as (typeof encoded.tensors)[number];
      let position = place.start;
      for (const piece of tensor.data()) {
        signal?.throwIfAborted();
        await file.write(piece, 0, piece.length, position);
        position += piece.length;
      }
      if (position !== place.start + place.bytes) {
        throw new RangeError(
          `tensor ${tensor.name} got ${position - place.start} bytes, takes ${place.bytes}`,
        );
      }
    }
    await file.truncate(encoded.fileBytes);
    await file.sync();
    await file.close();
    await rename(temporary, path);
  } catch (thrown) {
    await file.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw thrown;
  }
  return encoded.fileBytes;
}
