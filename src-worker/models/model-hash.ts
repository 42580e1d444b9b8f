import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

const BLOCK_BYTES = 16 * 1024;
const BLOCKS = 64;

export interface HashedFile {
  readonly handle: FileHandle;
  readonly bytes: number;
  /** Length of the GGUF header, which is hashed whole. */
  readonly headerBytes: number;
}

/**
 * A cheap name for a model's content: SHA-256 over each file's size, its header and 64 blocks of 16 KiB spread
 * evenly over it (all of it when it is smaller), as 64 hex digits. It tells models apart and recognises one that
 * was renamed or moved, for the record of what a model answered before. It proves no integrity: a changed byte
 * between the samples goes unseen.
 */
export async function hashModel(files: readonly HashedFile[], signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  hash.update('covey model 1\n');
  const block = Buffer.alloc(BLOCK_BYTES);
  for (const file of files) {
    hash.update(`${file.bytes} ${file.headerBytes}\n`);
    for (const [start, end] of ranges(file)) {
      for (let position = start; position < end;) {
        signal.throwIfAborted();
        const { bytesRead } = await file.handle.read(
          block,
          0,
          Math.min(BLOCK_BYTES, end - position),
          position,
        );
        if (bytesRead === 0) break;
        hash.update(block.subarray(0, bytesRead));
        position += bytesRead;
      }
    }
  }
  return hash.digest('hex');
}

function ranges(file: HashedFile): [number, number][] {
  const data = file.bytes - file.headerBytes;
  if (data <= BLOCKS * BLOCK_BYTES) return [[0, file.bytes]];
  const step = (data - BLOCK_BYTES) / (BLOCKS - 1);
  const samples = Array.from({ length: BLOCKS }, (_, index): [number, number] => {
    const start = file.headerBytes + Math.floor(index * step);
    return [start, start + BLOCK_BYTES];
  });
  return [[0, file.headerBytes], ...samples];
}
