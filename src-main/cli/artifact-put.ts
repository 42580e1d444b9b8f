import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import type { z } from 'zod';
import type { uploadBodySchema } from '#shared/api/jobs.ts';
import { ARTIFACT_CHUNK_BYTES, type ArtifactView } from '#shared/domain/artifact.ts';
import { canonicalManifest, makeManifest } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { chunkLength, digestFile, sha256 } from '../nodejs/artifacts/digest.ts';
import { walkTree } from '../nodejs/artifacts/walk-tree.ts';
import type { CommandContext } from './context.ts';
import { UsageError } from './failure.ts';
import { createLiveLine, type LiveLine } from './live-line.ts';
import { bytes, percent, printable } from './text.ts';

export interface PutOptions {
  /** Default: the file's or folder's. */
  readonly name?: string | undefined;
  /** What the archive holds, as a tree, instead of the archive. */
  readonly unpack?: boolean | undefined;
  /** Also find out whether it was kept before: see `PutResult.wasKept`. */
  readonly lookBefore?: boolean | undefined;
}

interface LocalFile {
  readonly path: string;
  readonly absolute: string;
  readonly executable: boolean;
}

/** What was put, and how much of it had to be sent. */
export interface PutResult {
  readonly artifact: ArtifactView;
  readonly sentBytes: number;
  /** Whether the covey kept it already, or may have (it was not asked). */
  readonly wasKept: boolean;
}

const uploadsAtOnce = 4;
const filesAtOnce = 4;
const finishMs = 60 * 60_000;
/** Chunks of an upload that turn out to be missing are sent again so often. */
const maxRounds = 3;

/**
 * Puts a file or folder of this machine into the covey: hashed here, and of its chunks only those are sent that the
 * controller does not have. One that was broken off goes on.
 */
export async function putArtifact(
  context: CommandContext,
  path: string,
  options: PutOptions,
  signal: AbortSignal,
): Promise<PutResult> {
  const absolute = resolve(context.io.workingDirectory, path);
  const found = await stat(absolute).catch(() => null);
  if (!found) throw new UsageError(`There is no ${printable(absolute)}.`);
  if (!found.isFile() && !found.isDirectory()) {
    throw new UsageError(`${printable(absolute)} is neither a file nor a folder.`);
  }
  const live = createLiveLine(context.io);
  try {
    if (options.unpack !== true) {
      const name = options.name ?? basename(absolute);
      return await putLocal(context, absolute, name, live, signal, options.lookBefore);
    }
    if (!found.isFile())
      throw new UsageError(`--unpack is for a tar or zip file; ${printable(path)} is a folder.`);
    const folder = await mkdtemp(join(tmpdir(), 'covey-unpack-'));
    try {
      const { unpack } = await import('../nodejs/artifacts/unpack.ts');
      live.update(`Unpacking ${printable(basename(absolute))}`, '');
      await unpack(absolute, join(folder, 'tree'), { signal });
      const name = options.name ?? basename(absolute).replace(/\.(tar|tgz|tar\.gz|zip)$/i, '');
      return await putLocal(context, join(folder, 'tree'), name, live, signal);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  } finally {
    live.end();
  }
}

async function putLocal(
  context: CommandContext,
  absolute: string,
  name: string,
  live: LiveLine,
  signal: AbortSignal,
  lookBefore = false,
): Promise<PutResult> {
  const { api } = context;
  const found = await stat(absolute);
  const isFile = found.isFile();
  const walked = isFile ? null : await walkTree(absolute);
  const local: readonly LocalFile[] = walked?.files ?? [{ path: 'file', absolute, executable: false }];
  const totalBytes = walked?.files.reduce((sum, file) => sum + file.bytes, 0) ?? found.size;
  const onBytes = (done: number): void =>
    live.update(`Reading ${printable(name)}`, `${bytes(done)} of ${bytes(totalBytes)}`);
  const body = await describe(
    isFile ? 'file' : 'tree',
    local,
    walked?.directories ?? [],
    name,
    onBytes,
    signal,
  );
  const where = placesOf(body, local);
  const wasKept = !lookBefore || (await isKept(context, body, signal));
  let sentBytes = 0;
  for (let round = 1; ; round += 1) {
    const upload = await api.call('startUpload', { body, timeoutMs: finishMs, signal });
    sentBytes += await send(context, upload.id, upload.needed, where, name, live, signal);
    live.update(`Putting ${printable(name)}`, 'verifying');
    try {
      const params = { id: upload.id };
      const artifact = await api.call('finishUpload', { params, timeoutMs: finishMs, signal });
      return { artifact, sentBytes, wasKept };
    } catch (error) {
      // Corrupt: what an attempt that was cut off by the power has left, for example.
      const again =
        error instanceof CoveyError &&
        ['upload_incomplete', 'upload_not_found', 'artifact_corrupt'].includes(error.code);
      if (!again || round >= maxRounds) throw error;
    }
  }
}

type UploadBody = z.input<typeof uploadBodySchema>;

/** Also where that cannot be told. */
async function isKept({ api }: CommandContext, body: UploadBody, signal: AbortSignal): Promise<boolean> {
  const files = body.files.map(({ path, executable, bytes, sha256 }) => ({
    ...{ path, bytes, executable: executable === true },
    sha256: sha256 as ArtifactId,
  }));
  const made = body.kind === 'tree' ? makeManifest(files, body.directories ?? []) : null;
  if (made && !made.ok) return true;
  const id = made ? sha256(canonicalManifest(made.manifest)) : (body.files[0]?.sha256 ?? '');
  try {
    return (await api.call('artifact', { params: { artifact: id }, signal })).pinned;
  } catch (error) {
    return !(error instanceof CoveyError && error.code === 'artifact_not_found');
  }
}

async function describe(
  kind: 'file' | 'tree',
  local: readonly LocalFile[],
  directories: readonly string[],
  name: string,
  onBytes: (done: number) => void,
  signal: AbortSignal,
): Promise<UploadBody> {
  const files: UploadBody['files'] = [];
  let doneBytes = 0;
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < local.length; index = next++) {
      const { path, absolute, executable } = local[index] as LocalFile;
      const digest = await digestFile(absolute, {
        signal,
        onBytes(more) {
          doneBytes += more;
          onBytes(doneBytes);
        },
      });
      files[index] = {
        path,
        executable,
        bytes: digest.bytes,
        sha256: digest.sha256,
        chunks: [...digest.chunks],
      };
    }
  };
  await Promise.all(Array.from({ length: Math.min(filesAtOnce, local.length) }, lane));
  return { kind, name, files, directories: [...directories] };
}

interface Place {
  readonly absolute: string;
  readonly offset: number;
  readonly bytes: number;
}

function placesOf(body: UploadBody, local: readonly LocalFile[]): ReadonlyMap<string, Place> {
  const places = new Map<string, Place>();
  for (const [at, file] of body.files.entries()) {
    for (const [index, chunk] of file.chunks.entries()) {
      const { absolute } = local[at] as LocalFile;
      places.set(chunk, {
        absolute,
        offset: index * ARTIFACT_CHUNK_BYTES,
        bytes: chunkLength(file.bytes, index),
      });
    }
  }
  return places;
}

/** @returns how many bytes were sent */
async function send(
  { api, io }: CommandContext,
  uploadId: string,
  needed: readonly ArtifactId[],
  where: ReadonlyMap<string, Place>,
  name: string,
  live: LiveLine,
  signal: AbortSignal,
): Promise<number> {
  const total = needed.reduce((sum, chunk) => sum + (where.get(chunk)?.bytes ?? 0), 0);
  const startedAt = io.now();
  let sent = 0;
  let next = 0;
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const lane = async (): Promise<void> => {
    const buffer = Buffer.allocUnsafe(ARTIFACT_CHUNK_BYTES);
    for (let index = next++; index < needed.length; index = next++) {
      const chunk = needed[index] as ArtifactId;
      const place = where.get(chunk);
      if (!place)
        throw new CoveyError('internal_error', 'The controller asks for a chunk that was not announced.');
      const piece = await readPiece(place, buffer);
      await api.putBytes(`/api/artifacts/uploads/${uploadId}/chunks/${chunk}`, piece, stop);
      sent += piece.length;
      const seconds = (io.now() - startedAt) / 1_000;
      const rate = seconds > 0.5 ? `, ${bytes(sent / seconds)}/s` : '';
      live.update(`Sending ${printable(name)}`, `${percent((sent / total) * 100)} of ${bytes(total)}${rate}`);
    }
  };
  const lanes = Array.from({ length: Math.min(uploadsAtOnce, needed.length) }, lane);
  try {
    await Promise.all(lanes);
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(lanes);
    throw error;
  }
  return sent;
}

async function readPiece({ absolute, offset, bytes: length }: Place, buffer: Buffer): Promise<Buffer> {
  const file = await open(absolute, 'r');
  try {
    for (let done = 0; done < length;) {
      const { bytesRead } = await file.read(buffer, done, length - done, offset + done);
      if (bytesRead === 0) throw new CoveyError('artifact_invalid', `${absolute} changed while it was sent.`);
      done += bytesRead;
    }
  } finally {
    await file.close();
  }
  return buffer.subarray(0, length);
}
