import { open, readFile } from 'node:fs/promises';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import { chunkCount, chunkLength } from './digest.ts';

/** Which chunks of a file are here, also after a restart: a byte for each, written when the chunk is. */
export interface Coming {
  has(index: number): boolean;
  mark(index: number): Promise<void>;
  unmark(index: number): Promise<void>;
  /** Bytes from the start without a gap. */
  prefix(): number;
  bytes(): number;
}

/** @param path of the record; the file itself is made when it is missing, and gets its full length */
export async function openComing(path: string, dataPath: string, bytes: number): Promise<Coming> {
  const count = chunkCount(bytes);
  const have = Buffer.alloc(count);
  const before = await readFile(path).catch(() => Buffer.alloc(0));
  await (await open(dataPath, 'a', 0o600)).close();
  const data = await open(dataPath, 'r+');
  try {
    // A record without its file says nothing.
    if (before.length <= count && (await data.stat()).size === bytes) before.copy(have);
    await data.truncate(bytes);
  } finally {
    await data.close();
  }
  const write = async (index: number, length: number): Promise<void> => {
    const file = await open(path, 'r+');
    try {
      await file.write(have, index, length, index);
    } finally {
      await file.close();
    }
  };
  await (await open(path, 'w', 0o600)).close();
  await write(0, count);
  let contiguous = 0;
  const set = (index: number, value: number): Promise<void> => {
    have[index] = value;
    if (value === 0) contiguous = Math.min(contiguous, index);
    return write(index, 1);
  };
  return {
    has: (index) => have[index] === 1,
    mark: (index) => set(index, 1),
    unmark: (index) => set(index, 0),
    prefix() {
      while (contiguous < count && have[contiguous] === 1) contiguous += 1;
      return Math.min(bytes, contiguous * ARTIFACT_CHUNK_BYTES);
    },
    bytes: () => have.reduce((sum, value, index) => sum + (value === 1 ? chunkLength(bytes, index) : 0), 0),
  };
}
