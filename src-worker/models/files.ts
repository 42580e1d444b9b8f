import { constants } from 'node:fs';
import { copyFile, open, rename, rm, statfs, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { TransferProgress } from '#shared/protocol/requests.ts';
import { sizeText } from '#shared/lib/size-text.ts';

/** Left free on the disk, so that filling it up with models does not stop everything else on it. */
const SPARE_BYTES = 256 * 1024 * 1024;
const COPY_BYTES = 4 * 1024 * 1024;
const REPORT_MS = 250;
/** The rate is over about this long, so that it follows the network but does not jump. */
const RATE_MS = 3_000;

/** Throws `disk_full` when the disk of `directory` has no room for `bytes` more. */
export async function requireSpace(directory: string, bytes: number): Promise<void> {
  const disk = await statfs(directory);
  const free = disk.bavail * disk.bsize;
  if (bytes + SPARE_BYTES > free) throw diskFull(directory, bytes, free);
}

function diskFull(directory: string, needed: number, free: number | null): CoveyError {
  const have = free === null ? '' : `, ${sizeText(free)} are free`;
  return new CoveyError(
    'disk_full',
    `${directory} has no room for ${sizeText(needed)}${have} (${sizeText(SPARE_BYTES)} are kept free)`,
  );
}

/** The same error, or `disk_full` if the system says that the disk is full. */
export function namedDiskError(thrown: unknown, directory: string, bytes: number): unknown {
  const code = (thrown as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT' ? diskFull(directory, bytes, null) : thrown;
}

/** Writes a file so that after a crash there is the old one or the new one. */
export async function writeAtomically(path: string, text: string): Promise<void> {
  const temporary = `${path}.new`;
  const file = await open(temporary, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  await syncDirectory(dirname(path));
}

/** Makes renames in a directory last through a power cut, where the system can. */
export async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Copies a file, sharing its blocks where the file system can (no bytes move then), and syncs it. `advance` gets
 * the bytes done since its last call. The target must not exist; it is removed when the copy fails.
 */
export async function copyWhole(
  from: string,
  to: string,
  bytes: number,
  advance: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL);
    advance(bytes);
    return;
  } catch {
    // Different disks, or a file system without shared blocks.
    await rm(to, { force: true });
  }
  await requireSpace(dirname(to), bytes);
  const source = await open(from, 'r');
  let target: FileHandle | null = null;
  try {
    target = await open(to, 'wx', 0o600);
    const buffer = Buffer.alloc(COPY_BYTES);
    for (let position = 0; ;) {
      signal.throwIfAborted();
      const { bytesRead } = await source.read(buffer, 0, buffer.length, position);
      if (bytesRead === 0) break;
      await target.write(buffer, 0, bytesRead, position);
      position += bytesRead;
      advance(bytesRead);
    }
    await target.sync();
  } catch (thrown) {
    await rm(to, { force: true });
    throw namedDiskError(thrown, dirname(to), bytes);
  } finally {
    await target?.close();
    await source.close();
  }
}

export interface Meter {
  /** So many more bytes are done. */
  advance(bytes: number): void;
  /** So many bytes are there from an earlier try: they count as done, not for the rate. */
  resume(bytes: number): void;
  /** Tells the final state. */
  finish(): void;
}

/** Turns bytes into progress reports, at most four a second, with a rate over the last seconds. */
export function progressMeter(
  totalBytes: number | null,
  report: ((progress: TransferProgress) => void) | undefined,
  now: () => number = () => performance.now(),
): Meter {
  let doneBytes = 0;
  let reportedAt = -Infinity;
  const samples: { at: number; bytes: number }[] = [{ at: now(), bytes: 0 }];
  const tell = (): void => {
    const at = now();
    reportedAt = at;
    samples.push({ at, bytes: doneBytes });
    while (samples.length > 2 && at - (samples[1]?.at ?? at) > RATE_MS) samples.shift();
    const first = samples[0] as (typeof samples)[number];
    const spanMs = at - first.at;
    const bytesPerS = spanMs > 0 ? ((doneBytes - first.bytes) * 1000) / spanMs : null;
    report?.({ doneBytes, totalBytes, bytesPerS });
  };
  return {
    advance(bytes) {
      doneBytes += bytes;
      if (now() - reportedAt >= REPORT_MS) tell();
    },
    resume(bytes) {
      doneBytes = bytes;
      samples.length = 0;
      samples.push({ at: now(), bytes });
      tell();
    },
    finish: tell,
  };
}
