import { constants } from 'node:fs';
import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';
import type { uploadBodySchema } from '#shared/api/jobs.ts';
import { type uploadViewSchema } from '#shared/api/jobs.ts';
import { ARTIFACT_CHUNK_BYTES, type ArtifactStake, type TreeManifest } from '#shared/domain/artifact.ts';
import { canonicalManifest, makeManifest, manifestBytes } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { openComing, type Coming } from '../../nodejs/artifacts/coming.ts';
import { chunkCount, chunkLength, sha256 } from '../../nodejs/artifacts/digest.ts';
import type { FileFollower, Hasher } from '../../nodejs/artifacts/hasher.ts';
import type { ArtifactStore } from '../../nodejs/artifacts/store.ts';
import { namingFullDisk } from '../../nodejs/disk-full.ts';

export type UploadBody = z.output<typeof uploadBodySchema>;
export type UploadView = z.output<typeof uploadViewSchema>;

/** What people put: told what is coming, given the chunks that are missing, verified as a whole. */
export interface Uploads {
  /** The same content goes on where it was broken off, also after a restart. */
  start(body: UploadBody): Promise<UploadView>;
  /**
   * A chunk that nobody waits for (any more) is passed over.
   * @throws CoveyError `upload_not_found`, `artifact_invalid` when it has another length than was announced
   */
  putChunk(uploadId: string, chunk: ArtifactId, pieces: readonly Buffer[]): Promise<void>;
  /**
   * @throws CoveyError `upload_incomplete` while chunks are missing, `artifact_corrupt` when what came is something
   *   else than was announced: those chunks are missing then
   */
  finish(uploadId: string, signal: AbortSignal): Promise<Finished>;
  /** Files that uploads count on. */
  needs(file: ArtifactId): boolean;
  /** Names of directories in `incoming` that are in use. */
  folders(): ReadonlySet<string>;
  /** What is announced and not in the store yet, and how much of that is still to be written. */
  pending(): { readonly bytes: number; readonly comingBytes: number };
  /** Drops those that nobody has gone on with for so long (default: as long as they are kept). */
  expire(idleMs?: number): Promise<void>;
}

export interface Finished {
  readonly stake: ArtifactStake;
  readonly files: number;
  readonly name: string;
}

interface IncomingFile {
  readonly id: ArtifactId;
  readonly bytes: number;
  readonly chunks: readonly ArtifactId[];
  readonly path: string;
  /** null: it has one chunk at most, and is there when its file is. */
  readonly coming: Coming | null;
  follower: FileFollower | null;
}

interface Upload {
  readonly id: string;
  /** In `incoming`. */
  readonly folderName: string;
  readonly folder: string;
  readonly stake: ArtifactStake;
  readonly manifest: TreeManifest | null;
  readonly body: UploadBody;
  readonly fileIds: ReadonlySet<ArtifactId>;
  name: string;
  readonly files: Map<ArtifactId, IncomingFile>;
  /** By content, where each chunk that is not here yet belongs. */
  readonly needed: Map<ArtifactId, { readonly file: IncomingFile; readonly index: number }[]>;
  /** Chunks that are copied from what is here already. */
  copying: Promise<void>;
  finishing: Promise<Finished> | null;
  usedAt: number;
}

const keepMs = 24 * 3_600_000;
const maxUploads = 256;
const adoptAtOnce = 8;

export function createUploads(options: {
  readonly store: ArtifactStore;
  readonly hasher: Hasher;
  /** Runs what takes so much of the store, or rejects with `artifact_quota`. */
  readonly withRoom: <T>(bytes: number, work: () => Promise<T>) => Promise<T>;
  /** Called while all of it is still kept from being collected. */
  readonly onWhole: (finished: Finished) => void;
  readonly now: () => number;
}): Uploads {
  const { store, hasher, now } = options;
  const uploads = new Map<string, Upload>();
  /** Of the same content only one is opened. */
  const opening = new Map<string, { readonly upload: Upload; readonly opened: Promise<void> }>();
  const stopped = new AbortController();

  const find = (id: string): Upload => {
    const upload = uploads.get(id);
    if (!upload)
      throw new CoveyError('upload_not_found', 'There is no such upload (any more): begin it again.');
    upload.usedAt = now();
    return upload;
  };

  const openFile = async (upload: Pick<Upload, 'folder'>, file: Announced): Promise<IncomingFile> => {
    const path = join(upload.folder, file.id);
    const coming = chunkCount(file.bytes) > 1 ? await openComing(`${path}.have`, path, file.bytes) : null;
    return { ...file, path, coming, follower: null };
  };

  /** What is missing, and what is copied from files that are here. */
  const sortOut = async (upload: Upload): Promise<void> => {
    const copies: { file: IncomingFile; index: number; chunk: ArtifactId; bytes: number }[] = [];
    for (const file of upload.files.values()) {
      for (const [index, chunk] of file.chunks.entries()) {
        if (await isHere(file, index)) continue;
        const bytes = chunkLength(file.bytes, index);
        if (store.chunks.find(chunk)?.bytes === bytes) copies.push({ file, index, chunk, bytes });
        else need(upload, chunk, file, index);
      }
      if (file.bytes === 0) await (await open(file.path, 'w', 0o600)).close();
    }
    upload.copying = copyChunks(upload, copies);
    upload.copying.catch(() => undefined);
  };
  const copyChunks = async (
    upload: Upload,
    copies: readonly { file: IncomingFile; index: number; chunk: ArtifactId; bytes: number }[],
  ): Promise<void> => {
    const orders = copies.flatMap((copy) => {
      const from = store.chunks.find(copy.chunk);
      // It has gone since.
      if (!from) return (need(upload, copy.chunk, copy.file, copy.index), []);
      const to = { path: copy.file.path, offset: copy.index * ARTIFACT_CHUNK_BYTES };
      const order = {
        sha256: copy.chunk,
        bytes: copy.bytes,
        from: { path: from.path, offset: from.offset },
        to,
      };
      return [{ copy, order }];
    });
    if (orders.length === 0) return;
    try {
      for (const { copy } of orders) {
        if (!copy.file.coming) await (await open(copy.file.path, 'a', 0o600)).close();
      }
      const failed = new Set(
        await hasher.copy(
          orders.map(({ order }) => order),
          stopped.signal,
        ),
      );
      for (const [at, { copy }] of orders.entries()) {
        const { file, index, chunk } = copy;
        if (!failed.has(at)) await file.coming?.mark(index);
        else {
          store.chunks.forget(chunk);
          need(upload, chunk, file, index);
        }
      }
    } catch (error) {
      // They can be sent as well.
      for (const { copy } of orders) {
        if (!copy.file.coming?.has(copy.index)) need(upload, copy.chunk, copy.file, copy.index);
      }
      throw error;
    }
  };

  const finish = async (upload: Upload, signal: AbortSignal): Promise<Finished> => {
    await upload.copying.catch(() => undefined);
    if (upload.needed.size > 0) {
      throw new CoveyError('upload_incomplete', `${upload.needed.size} chunks of this upload are missing.`);
    }
    // An earlier attempt to finish, or another upload, may have brought some of them in.
    const files = [...upload.files.values()].filter(({ id }) => !store.file(id));
    const whole = new Map<IncomingFile, ArtifactId | undefined>();
    const once = files.filter((file) => file.follower === null);
    const digests = await hasher.digest(
      once.map(({ path }) => path),
      signal,
    );
    once.forEach((file, at) => whole.set(file, digests[at]?.sha256));
    for (const file of files) {
      if (file.follower) whole.set(file, await file.follower.finish(file.bytes, signal));
      file.follower = null;
    }
    const wrong = files.filter((file) => whole.get(file) !== file.id);
    if (wrong.length > 0) {
      for (const file of wrong) await unmarkWrong(upload, file, signal);
      const name = upload.manifest ? pathOf(upload.manifest, wrong[0]?.id) : upload.name;
      throw new CoveyError('artifact_corrupt', `What came of ${name} is something else than was announced.`);
    }
    const waiting = [...files];
    const lane = async (): Promise<void> => {
      for (let file = waiting.shift(); file; file = waiting.shift()) {
        await store.adopt(file.path, file.id, file.bytes, file.chunks);
      }
    };
    const lanes = Array.from({ length: Math.min(adoptAtOnce, files.length) }, lane);
    try {
      await Promise.all(lanes);
    } finally {
      // The next attempt looks at what is here by then.
      waiting.length = 0;
      await Promise.allSettled(lanes);
    }
    if (upload.manifest) await store.addManifest(upload.manifest);
    if ([...upload.fileIds].some((id) => !store.file(id))) {
      await drop(upload);
      throw new CoveyError(
        'upload_incomplete',
        'Files of this upload were removed meanwhile: begin it again.',
      );
    }
    store.touch(upload.fileIds);
    const finished = { stake: upload.stake, files: upload.body.files.length, name: upload.name };
    options.onWhole(finished);
    await drop(upload);
    return finished;
  };
  const unmarkWrong = async (upload: Upload, file: IncomingFile, signal: AbortSignal): Promise<void> => {
    const located = file.coming ? await hasher.compare(file.path, file.bytes, file.chunks, signal) : [];
    const all = file.chunks.map((_chunk, index) => index);
    for (const index of located.length > 0 ? located : all) {
      if (file.coming) await file.coming.unmark(index);
      else await rm(file.path, { force: true });
      need(upload, file.chunks[index] as ArtifactId, file, index);
    }
  };
  const drop = async (upload: Upload): Promise<void> => {
    uploads.delete(upload.id);
    for (const file of upload.files.values()) file.follower?.close();
    await rm(upload.folder, { recursive: true, force: true });
  };

  const expire = async (idleMs = keepMs): Promise<void> => {
    for (const upload of [...uploads.values()]) {
      if (upload.usedAt + idleMs <= now() && !upload.finishing) await drop(upload);
    }
  };
  const all = (): Upload[] => [...uploads.values(), ...[...opening.values()].map(({ upload }) => upload)];

  const view = (upload: Upload): UploadView => ({
    id: upload.id,
    needed: [...upload.needed.keys()],
    expiresAt: upload.usedAt + keepMs,
  });
  const openUpload = async (upload: Upload, announcedFiles: readonly Announced[]): Promise<void> => {
    const missing = announcedFiles.filter((file) => !store.file(file.id));
    const bytes = missing.reduce((sum, file) => sum + file.bytes, 0);
    await options.withRoom(bytes, async () => {
      try {
        await store.incoming(upload.folderName);
        for (const file of missing) upload.files.set(file.id, await openFile(upload, file));
        await sortOut(upload);
      } catch (error) {
        throw namingFullDisk(error, store.directory);
      }
    });
  };

  return {
    async start(body) {
      const { stake, manifest, files } = announced(body);
      const id = sha256(
        JSON.stringify([body.kind, stake.id, files.map((file) => [file.id, file.chunks])]),
      ).slice(0, 32);
      await opening.get(id)?.opened;
      const known = uploads.get(id);
      if (known) {
        await known.copying.catch(() => undefined);
        known.name = body.name;
        known.usedAt = now();
        return view(known);
      }
      if (all().length >= maxUploads) await expire();
      if (all().length >= maxUploads) {
        throw new CoveyError('too_many_requests', `${maxUploads} uploads are under way already.`);
      }
      const folderName = `upload-${id}`;
      const upload: Upload = {
        id,
        folderName,
        folder: join(store.directory, 'incoming', folderName),
        stake,
        manifest,
        body,
        fileIds: new Set(files.map((file) => file.id)),
        name: body.name,
        files: new Map(),
        needed: new Map(),
        copying: Promise.resolve(),
        finishing: null,
        usedAt: now(),
      };
      const opened = openUpload(upload, files);
      opening.set(id, { upload, opened });
      try {
        await opened;
        uploads.set(id, upload);
      } finally {
        opening.delete(id);
      }
      return view(upload);
    },
    async putChunk(uploadId, chunk, pieces) {
      const upload = find(uploadId);
      const places = upload.needed.get(chunk);
      // It came twice, or belongs to nothing.
      if (!places) return;
      const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
      for (const { file, index } of places) {
        const expected = chunkLength(file.bytes, index);
        if (bytes !== expected) {
          throw new CoveyError(
            'artifact_invalid',
            `This chunk has ${bytes} bytes, announced were ${expected}.`,
            {
              field: 'body',
            },
          );
        }
      }
      try {
        for (const { file, index } of places) await writeChunk(file, index, pieces);
      } catch (error) {
        throw namingFullDisk(error, store.directory);
      }
      upload.needed.delete(chunk);
      for (const { file } of places) {
        if (!file.coming) continue;
        file.follower ??= hasher.follow(file.path);
        file.follower.advance(file.coming.prefix());
      }
    },
    async finish(uploadId, signal) {
      const upload = find(uploadId);
      upload.finishing ??= finish(upload, signal)
        .catch((error: unknown) => {
          throw namingFullDisk(error, store.directory);
        })
        .finally(() => {
          upload.finishing = null;
        });
      return upload.finishing;
    },
    needs: (file) => all().some(({ fileIds }) => fileIds.has(file)),
    folders: () => new Set(all().map(({ folderName }) => folderName)),
    pending() {
      let bytes = 0;
      let comingBytes = 0;
      for (const { files, needed } of uploads.values()) {
        for (const file of files.values()) if (!store.file(file.id)) bytes += file.bytes;
        for (const places of needed.values()) {
          for (const { file, index } of places) comingBytes += chunkLength(file.bytes, index);
        }
      }
      return { bytes, comingBytes };
    },
    expire,
  };
}

interface Announced {
  readonly id: ArtifactId;
  readonly bytes: number;
  readonly chunks: readonly ArtifactId[];
}

/** @throws CoveyError `artifact_invalid` naming what cannot be */
function announced(body: UploadBody): {
  readonly stake: ArtifactStake;
  readonly manifest: TreeManifest | null;
  readonly files: Announced[];
} {
  const files = new Map<ArtifactId, Announced>();
  for (const [at, file] of body.files.entries()) {
    const { sha256: id, bytes, chunks } = file;
    const refuse = (field: string, why: string): CoveyError =>
      new CoveyError('artifact_invalid', `${JSON.stringify(file.path.slice(0, 200))}: ${why}.`, {
        field: `files.${at}.${field}`,
      });
    const count = chunkCount(bytes);
    if (chunks.length !== count)
      throw refuse('chunks', `${bytes} bytes are ${count} chunks, not ${chunks.length}`);
    if (count === 1 && chunks[0] !== id) throw refuse('chunks', 'the only chunk of a file has its digest');
    const other = files.get(id);
    if (other && other.bytes !== bytes) throw refuse('bytes', 'the same content has another size elsewhere');
    files.set(id, { id, bytes, chunks });
  }
  if (body.kind === 'file') {
    const [only] = files.values();
    if (!only || body.files.length !== 1 || body.directories.length > 0) {
      throw new CoveyError('artifact_invalid', 'A file artifact is exactly one file.', { field: 'files' });
    }
    return { stake: { id: only.id, kind: 'file', bytes: only.bytes }, manifest: null, files: [only] };
  }
  const made = makeManifest(
    body.files.map(({ path, executable, bytes, sha256: id }) => ({ path, executable, bytes, sha256: id })),
    body.directories,
  );
  if (!made.ok)
    throw new CoveyError('artifact_invalid', `This is no tree: ${made.problem}.`, { field: 'files' });
  const id = sha256(canonicalManifest(made.manifest));
  return {
    stake: { id, kind: 'tree', bytes: manifestBytes(made.manifest) },
    manifest: made.manifest,
    files: [...files.values()],
  };
}

function need(upload: Upload, chunk: ArtifactId, file: IncomingFile, index: number): void {
  const places = upload.needed.get(chunk) ?? [];
  places.push({ file, index });
  upload.needed.set(chunk, places);
}

/** What is there of an earlier attempt; it is verified in the end. */
async function isHere(file: IncomingFile, index: number): Promise<boolean> {
  if (file.coming) return file.coming.has(index);
  const found = await stat(file.path).catch(() => null);
  return found?.size === file.bytes;
}

async function writeChunk(file: IncomingFile, index: number, pieces: readonly Buffer[]): Promise<void> {
  const handle = await open(file.path, constants.O_WRONLY | constants.O_CREAT, 0o600);
  try {
    let at = index * ARTIFACT_CHUNK_BYTES;
    const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
    const { bytesWritten } = await handle.writev(pieces, at);
    if (bytesWritten < total) {
      const rest = Buffer.concat(pieces).subarray(bytesWritten);
      at += bytesWritten;
      for (let done = 0; done < rest.length;) {
        done += (await handle.write(rest, done, rest.length - done, at + done)).bytesWritten;
      }
    }
  } finally {
    await handle.close();
  }
  await file.coming?.mark(index);
}

function pathOf(manifest: TreeManifest, id: ArtifactId | undefined): string {
  const found = manifest.entries.find((entry) => entry.type === 'file' && entry.sha256 === id);
  return JSON.stringify(found?.path ?? 'a file');
}
