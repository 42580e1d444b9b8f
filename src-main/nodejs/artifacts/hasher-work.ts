import { createHash, type Hash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ChunkCopy, HasherCommand, HasherEvent } from '#shared/host/artifact-hasher.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { chunkDigest, chunkLength, digestFile } from './digest.ts';

/** Files that are digested at once for one order: small ones are mostly waiting for the disk. */
const filesAtOnce = 4;
const readBytes = 1024 * 1024;

/** What the hashing process does, apart from being a process. */
export function createHasherWork(emit: (event: HasherEvent) => void): {
  handle(command: HasherCommand): void;
} {
  const cancelled = new Map<number, AbortController>();
  const followers = new Map<number, Follower>();

  const run = (operation: number, work: (signal: AbortSignal) => Promise<HasherEvent>): void => {
    const stop = new AbortController();
    cancelled.set(operation, stop);
    work(stop.signal)
      .then(emit, (error: unknown) => {
        emit({ type: 'failed', operation, error: CoveyError.from(error).toBody() });
      })
      .finally(() => cancelled.delete(operation));
  };

  return {
    handle(command) {
      const { operation } = command;
      switch (command.type) {
        case 'digest':
          return run(operation, async (signal) => ({
            type: 'digested',
            operation,
            digests: await inParallel(command.paths, (path) => digestFile(path, { signal })),
          }));
        case 'follow':
          followers.set(operation, createFollower(command.path));
          return;
        case 'advance':
          followers.get(operation)?.advance(command.bytes);
          return;
        case 'finish': {
          const follower = followers.get(operation);
          if (!follower) return;
          run(operation, async () => {
            try {
              return { type: 'followed', operation, sha256: await follower.finish(command.bytes) };
            } finally {
              followers.delete(operation);
            }
          });
          return;
        }
        case 'compare':
          return run(operation, async (signal) => ({
            type: 'compared',
            operation,
            wrong: await compare(command.path, command.bytes, command.chunks, signal),
          }));
        case 'copy':
          return run(operation, async (signal) => ({
            type: 'copied',
            operation,
            failed: await copyChunks(command.copies, signal),
          }));
        case 'cancel':
          cancelled.get(operation)?.abort(new CoveyError('cancelled', 'Not wanted any more.'));
          followers.get(operation)?.stop();
          followers.delete(operation);
      }
    },
  };
}

async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) {
      results[index] = await work(items[index] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(filesAtOnce, items.length) }, lane));
  return results;
}

interface Follower {
  advance(bytes: number): void;
  finish(bytes: number): Promise<ArtifactId>;
  stop(): void;
}

/** Hashes a file from its start as far as it is known to be there, while the rest is still coming. */
function createFollower(path: string): Follower {
  const hash = createHash('sha256');
  let target = 0;
  let done = 0;
  let stopped = false;
  let working: Promise<void> | null = null;
  const work = async (): Promise<void> => {
    const file = await open(path, 'r');
    try {
      done = await update(hash, file, done, () => (stopped ? done : target));
    } finally {
      await file.close();
    }
  };
  const advance = (): Promise<void> => {
    working ??= work().finally(() => {
      working = null;
    });
    return working;
  };
  return {
    advance(bytes) {
      if (bytes <= target || stopped) return;
      target = bytes;
      // What goes wrong shows again when it is to be finished.
      advance().catch(() => undefined);
    },
    async finish(bytes) {
      target = bytes;
      // One that is at its end has not seen the new target, and no more comes of it.
      await working?.catch(() => undefined);
      while (done < target && !stopped) {
        const before = done;
        await advance();
        if (done === before)
          throw new CoveyError('artifact_corrupt', `${path} is shorter than it should be.`);
      }
      return hash.digest('hex') as ArtifactId;
    },
    stop() {
      stopped = true;
    },
  };
}

/** @returns where it ended: at what `until` says, or at the end of the file */
async function update(hash: Hash, file: FileHandle, from: number, until: () => number): Promise<number> {
  const buffer = Buffer.allocUnsafe(readBytes);
  let done = from;
  while (done < until()) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, until() - done), done);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    done += bytesRead;
  }
  return done;
}

async function compare(
  path: string,
  bytes: number,
  chunks: readonly (ArtifactId | null)[],
  signal: AbortSignal,
): Promise<number[]> {
  const wrong: number[] = [];
  const file = await open(path, 'r');
  try {
    const buffer = Buffer.allocUnsafeSlow(ARTIFACT_CHUNK_BYTES);
    for (const [index, expected] of chunks.entries()) {
      if (expected === null) continue;
      if (signal.aborted) throw CoveyError.from(signal.reason);
      const length = chunkLength(bytes, index);
      const whole = await readWhole(file, buffer, length, index * ARTIFACT_CHUNK_BYTES);
      if (!whole || (await chunkDigest(buffer.subarray(0, length))) !== expected) wrong.push(index);
    }
  } finally {
    await file.close();
  }
  return wrong;
}

async function copyChunks(copies: readonly ChunkCopy[], signal: AbortSignal): Promise<number[]> {
  const failed: number[] = [];
  const buffer = Buffer.allocUnsafeSlow(ARTIFACT_CHUNK_BYTES);
  for (const [index, copy] of copies.entries()) {
    if (signal.aborted) throw CoveyError.from(signal.reason);
    const chunk = buffer.subarray(0, copy.bytes);
    if (!(await readFrom(copy, buffer)) || (await chunkDigest(chunk)) !== copy.sha256) {
      failed.push(index);
      continue;
    }
    const to = await open(copy.to.path, 'r+');
    try {
      for (let done = 0; done < chunk.length;) {
        const { bytesWritten } = await to.write(chunk, done, chunk.length - done, copy.to.offset + done);
        done += bytesWritten;
      }
    } finally {
      await to.close();
    }
  }
  return failed;
}

/** false: it is gone or shorter than it was. */
async function readFrom({ from, bytes }: ChunkCopy, buffer: Buffer): Promise<boolean> {
  const file = await open(from.path, 'r').catch(() => null);
  if (!file) return false;
  try {
    return await readWhole(file, buffer, bytes, from.offset);
  } finally {
    await file.close();
  }
}

async function readWhole(file: FileHandle, buffer: Buffer, length: number, offset: number): Promise<boolean> {
  for (let done = 0; done < length;) {
    const { bytesRead } = await file.read(buffer, done, length - done, offset + done);
    if (bytesRead === 0) return false;
    done += bytesRead;
  }
  return true;
}
