import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fillPath } from '#shared/api/calls.ts';
import { isSafeTreePath, type ArtifactStake, type ArtifactView } from '#shared/domain/artifact.ts';
import { canonicalManifest, makeManifest, type TreeFile } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { digestFile, sha256 } from '../nodejs/artifacts/digest.ts';
import { defaultUnpackLimits } from '../nodejs/artifacts/unpack-guard.ts';
import { walkTree } from '../nodejs/artifacts/walk-tree.ts';
import type { CommandContext } from './context.ts';
import { UsageError } from './failure.ts';
import { createLiveLine } from './live-line.ts';
import { cannotWrite, inTheWay, isWriteError, tryFolder, whatIs } from './local-write.ts';
import { bytes, percent, printable } from './text.ts';

const contentPath = '/api/artifacts/:artifact/content';

/**
 * Gets an artifact as a file or folder here, verified. A file that was broken off goes on where it was.
 * @param target where to; default: its name, in the working directory
 * @returns where it is
 */
export async function getArtifact(
  { api, io }: CommandContext,
  ref: string,
  target: string | undefined,
  force: boolean,
  signal: AbortSignal,
): Promise<{ readonly artifact: ArtifactView; readonly path: string }> {
  const artifact = await api.call('artifact', { params: { artifact: ref } });
  const named = basename(artifact.name);
  if (target === undefined && !isSafeTreePath(named)) {
    throw new UsageError('The name of this artifact is no file name here: say where to put it.');
  }
  const path = resolve(io.workingDirectory, target ?? named);
  const there = await lstat(path).catch(() => null);
  if (there && !force) throw inTheWay(path, whatIs(there), 'name another or add --force');
  if (there?.isDirectory() && artifact.kind === 'file') {
    throw inTheWay(path, whatIs(there), `${printable(artifact.name)} is a file, so name a file`);
  }
  const live = createLiveLine(io);
  const name = `Getting ${printable(artifact.name)}`;
  try {
    await getContent({
      ...{ api, signal, artifact, path },
      onBytes(done) {
        const share = artifact.bytes > 0 ? (done / artifact.bytes) * 100 : 100;
        live.update(name, `${percent(share)} of ${bytes(artifact.bytes)}`);
      },
      onStep: (step) => live.update(name, step),
    });
  } finally {
    live.end();
  }
  return { artifact, path };
}

export interface Getting {
  readonly api: CommandContext['api'];
  readonly signal: AbortSignal;
  readonly artifact: ArtifactStake & { readonly name: string };
  /** Absolute; a file that is there is replaced, a folder too. */
  readonly path: string;
  /** Of a file: how many bytes of it are here. */
  readonly onBytes: (done: number) => void;
  /** Of a folder. */
  readonly onStep: (step: string) => void;
}

/** What an artifact is called while it comes: a file that was broken off goes on from there, a folder begins anew. */
export function partialPath({ id }: Getting['artifact'], path: string): string {
  return `${path}.${id.slice(0, 12)}.part`;
}

/** Verified, as `partialPath` first and then renamed. @throws CoveyError */
export async function getContent(getting: Getting): Promise<void> {
  try {
    await (getting.artifact.kind === 'file' ? getFile(getting) : getTree(getting));
  } catch (error) {
    throw isWriteError(error) ? cannotWrite(getting.path, error) : error;
  }
}

function urlOf({ id }: Getting['artifact']): string {
  return fillPath(contentPath, { artifact: id });
}

async function getFile(getting: Getting): Promise<void> {
  const { artifact, path, signal } = getting;
  const partial = partialPath(artifact, path);
  const file = await openPartial(partial);
  let came = 0;
  try {
    const size = (await file.stat()).size;
    came = size <= artifact.bytes ? size : 0;
    if (came < size) await file.truncate(came);
    const hash = createHash('sha256');
    await addTo(hash, file, came, signal);
    if (came < artifact.bytes || artifact.bytes === 0) {
      await receive(getting, file, came, hash, (done) => {
        came = done;
        getting.onBytes(done);
      });
    }
    if (came !== artifact.bytes || hash.digest('hex') !== artifact.id) {
      came = 0;
      throw new CoveyError('artifact_corrupt', `What came of ${artifact.name} is something else: try again.`);
    }
  } finally {
    await file.close();
    if (came === 0 && artifact.bytes > 0) await rm(partial, { force: true });
  }
  await rename(partial, path);
}

/** A regular file to go on with, or a new one: through no link, and without waiting for whoever reads a pipe. */
async function openPartial(path: string): Promise<FileHandle> {
  const there = await lstat(path).catch(() => null);
  if (there && !there.isFile()) throw inTheWay(path, whatIs(there), 'move it away');
  // Windows has neither of the last two, and counts them as 0.
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  return open(path, flags, 0o644);
}

/** The first `size` bytes. */
async function addTo(hash: Hash, file: FileHandle, size: number, signal: AbortSignal): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(size, 1024 * 1024));
  for (let done = 0; done < size;) {
    if (signal.aborted) throw CoveyError.from(signal.reason);
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, size - done), done);
    if (bytesRead === 0)
      throw new CoveyError('artifact_invalid', 'A file that was broken off was cut meanwhile.');
    hash.update(buffer.subarray(0, bytesRead));
    done += bytesRead;
  }
}

/** Closes the file. @param onDone with how many bytes of it have come in all */
async function receive(
  { api, signal, artifact }: Getting,
  file: FileHandle,
  from: number,
  hash: Hash,
  onDone: (done: number) => void,
): Promise<void> {
  const answer = await api.getBytes(urlOf(artifact), from, signal);
  if (from > 0 && answer.statusCode !== 206) {
    answer.destroy();
    throw new CoveyError(
      'internal_error',
      'What answers there cannot go on with a file that was broken off.',
    );
  }
  let done = from;
  const counted = new Transform({
    highWaterMark: 1024 * 1024,
    transform(chunk: Buffer, _encoding, next) {
      hash.update(chunk);
      done += chunk.length;
      onDone(done);
      next(null, chunk);
    },
  });
  const sink = file.createWriteStream({ start: from, highWaterMark: 4 * 1024 * 1024 });
  await pipeline(answer, counted, sink, { signal }).catch((error: unknown) => {
    if (signal.aborted) throw CoveyError.from(signal.reason);
    throw error instanceof CoveyError || isWriteError(error)
      ? error
      : brokenOff(artifact, 'the same command goes on', error);
  });
}

function brokenOff({ name }: Getting['artifact'], then: string, error: unknown): CoveyError {
  return new CoveyError(
    'controller_unreachable',
    `The connection ended before all of ${name} was here: ${then}.`,
    {},
    error,
  );
}

async function getTree({ api, signal, artifact, path, onStep }: Getting): Promise<void> {
  const { unpackStream } = await import('../nodejs/artifacts/unpack.ts');
  const partial = partialPath(artifact, path);
  const there = await lstat(partial).catch(() => null);
  if (there && !there.isDirectory()) throw inTheWay(partial, whatIs(there), 'move it away');
  // Of a process that was killed.
  await rm(partial, { recursive: true, force: true });
  await tryFolder(partial);
  try {
    onStep(bytes(artifact.bytes));
    const limits = { ...defaultUnpackLimits, bytes: artifact.bytes };
    await unpackStream(await api.getBytes(urlOf(artifact), 0, signal), artifact.name, partial, {
      signal,
      limits,
    }).catch((error: unknown) => {
      throw error instanceof CoveyError || isWriteError(error)
        ? error
        : brokenOff(artifact, 'try again', error);
    });
    onStep('verifying');
    if ((await treeDigest(partial, signal)) !== artifact.id) {
      throw new CoveyError('artifact_corrupt', `What came of ${artifact.name} is something else: try again.`);
    }
    await rm(path, { recursive: true, force: true });
    await rename(partial, path);
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/** The id that a folder here would have; null: it holds what no tree can. */
export async function treeDigest(path: string, signal: AbortSignal): Promise<ArtifactId | null> {
  const walked = await walkTree(path);
  const files: TreeFile[] = [];
  for (const file of walked.files) {
    const digest = await digestFile(file.absolute, { signal });
    files.push({
      path: file.path,
      executable: file.executable,
      bytes: digest.bytes,
      sha256: digest.sha256,
    });
  }
  const made = makeManifest(files, walked.directories);
  return made.ok ? sha256(canonicalManifest(made.manifest)) : null;
}
