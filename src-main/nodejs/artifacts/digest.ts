import { createHash, webcrypto } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';

/** A file's content as artifacts name it. */
export interface FileDigest {
  readonly bytes: number;
  readonly sha256: ArtifactId;
  /** SHA-256 of each chunk, in order; none for an empty file. */
  readonly chunks: readonly ArtifactId[];
}

export function sha256(data: Uint8Array | string): ArtifactId {
  return createHash('sha256').update(data).digest('hex') as ArtifactId;
}

/** On a thread of its own, so that several chunks are computed at once. */
export async function chunkDigest(data: Uint8Array<ArrayBuffer>): Promise<ArtifactId> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', data)).toString('hex') as ArtifactId;
}

export function chunkCount(bytes: number): number {
  return Math.ceil(bytes / ARTIFACT_CHUNK_BYTES);
}

export function chunkLength(bytes: number, index: number): number {
  return Math.min(ARTIFACT_CHUNK_BYTES, bytes - index * ARTIFACT_CHUNK_BYTES);
}

/**
 * Reads a file once, as a whole and by chunk; the next chunk is read while this one is computed.
 * @param onBytes how many more have been read
 * @throws CoveyError `artifact_invalid` when it changes meanwhile, `cancelled`
 */
export async function digestFile(
  path: string,
  options: { readonly signal?: AbortSignal; readonly onBytes?: (bytes: number) => void } = {},
): Promise<FileDigest> {
  const file = await open(path, 'r');
  try {
    return await digestHandle(file, path, options);
  } finally {
    await file.close();
  }
}

export async function digestHandle(
  file: FileHandle,
  path: string,
  { signal, onBytes }: { readonly signal?: AbortSignal; readonly onBytes?: (bytes: number) => void },
): Promise<FileDigest> {
  const before = await file.stat();
  const bytes = before.size;
  const count = chunkCount(bytes);
  const whole = createHash('sha256');
  const buffers = [0, 1, 2].slice(0, Math.max(1, Math.min(3, count))).map(() => newBuffer(bytes));
  const digests: Promise<ArtifactId>[] = [];
  const read = (index: number): Promise<Uint8Array<ArrayBuffer>> =>
    readExactly(file, buffers[index % buffers.length] as Buffer<ArrayBuffer>, index, bytes, path);
  let next = count > 0 ? read(0) : null;
  for (let index = 0; index < count; index += 1) {
    if (signal?.aborted) {
      await Promise.allSettled([next, ...digests.slice(-3)]);
      throw CoveyError.from(signal.reason);
    }
    const chunk = (await next) as Uint8Array<ArrayBuffer>;
    const one = count === 1 ? null : chunkDigest(chunk);
    if (one) digests.push(one);
    if (index + 1 < count) {
      // A buffer is free again once the digest that reads it is done.
      await digests[index + 1 - buffers.length];
      next = read(index + 1);
      next.catch(() => undefined);
    }
    whole.update(chunk);
    onBytes?.(chunk.length);
  }
  const after = await file.stat();
  if (after.size !== bytes || after.mtimeMs !== before.mtimeMs) throw changed(path);
  const id = whole.digest('hex') as ArtifactId;
  return { bytes, sha256: id, chunks: count === 1 ? [id] : await Promise.all(digests) };
}

function newBuffer(bytes: number): Buffer<ArrayBuffer> {
  return Buffer.allocUnsafeSlow(Math.max(1, Math.min(bytes, ARTIFACT_CHUNK_BYTES)));
}

async function readExactly(
  file: FileHandle,
  buffer: Buffer<ArrayBuffer>,
  index: number,
  bytes: number,
  path: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const length = chunkLength(bytes, index);
  const start = index * ARTIFACT_CHUNK_BYTES;
  for (let done = 0; done < length;) {
    const { bytesRead } = await file.read(buffer, done, length - done, start + done);
    if (bytesRead === 0) throw changed(path);
    done += bytesRead;
  }
  return buffer.subarray(0, length);
}

function changed(path: string): CoveyError {
  return new CoveyError('artifact_invalid', `${path} changed while it was read.`, { field: 'path' });
}
