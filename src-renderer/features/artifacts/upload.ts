import { ARTIFACT_CHUNK_BYTES, isSafeTreePath, type ArtifactView } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import { createSha256 } from './sha256.ts';

/** What a person chose: one file, or the files of a folder by their paths in it. */
export interface UploadSource {
  readonly kind: 'file' | 'tree';
  readonly name: string;
  readonly files: readonly { readonly path: string; readonly file: File }[];
}

/** `preparing`: bytes that have been read and digested. `sending`: of what is not there yet. */
export interface UploadProgress {
  readonly step: 'preparing' | 'sending' | 'verifying';
  readonly doneBytes: number;
  readonly totalBytes: number;
}

interface FileDigest {
  readonly sha256: ArtifactId;
  readonly chunks: readonly ArtifactId[];
  readonly executable: boolean;
}

const atOnce = 3;
/** Hashing a large file is done in pieces of this size, so that the page stays at hand. */
const pieceBytes = 512 * 1024;
const tries = 4;
const firstPauseMs = 500;
const serverMs = 10 * 60_000;
/** One chunk, also over a slow line. */
const chunkMs = 3 * 60_000;
/** A file that was digested once is not digested again when its upload goes on. */
const digests = new WeakMap<File, FileDigest>();

/** @returns what is wrong with the choice, as a sentence; null: nothing */
export function sourceProblem({ kind, files }: UploadSource): string | null {
  if (files.length === 0) return 'There is no file in this folder.';
  if (files.length > 100_000) return 'A folder may have 100,000 files at most.';
  const unsafe = kind === 'tree' ? files.find(({ path }) => !isSafeTreePath(path)) : undefined;
  return unsafe === undefined
    ? null
    : `${JSON.stringify(unsafe.path)} is a name that not every system can have.`;
}

/** A folder as the browser gives it: paths begin with the folder's own name. */
export function folderSource(files: readonly File[]): UploadSource {
  const [top = 'folder'] = (files[0]?.webkitRelativePath ?? '').split('/');
  return {
    kind: 'tree',
    name: artifactName(top === '' ? 'folder' : top),
    files: files.map((file) => ({ path: file.webkitRelativePath.split('/').slice(1).join('/'), file })),
  };
}

export function fileSource(file: File): UploadSource {
  const name = artifactName(file.name);
  return { kind: 'file', name, files: [{ path: name, file }] };
}

/** Names have no control characters and none that cannot be seen. */
function artifactName(name: string): string {
  return name.replace(/\p{C}/gu, '_').slice(0, 256);
}

/**
 * Puts files into the covey: digests them, asks which chunks are missing, sends those. The same choice goes on where
 * an earlier upload was broken off.
 */
export async function upload(
  api: ApiClient,
  source: UploadSource,
  signal: AbortSignal,
  onProgress: (progress: UploadProgress) => void,
): Promise<ArtifactView> {
  const totalBytes = source.files.reduce((sum, { file }) => sum + file.size, 0);
  let read = 0;
  const files = [];
  const places = new Map<ArtifactId, Blob>();
  for (const { path, file } of source.files) {
    const digest = await digestOf(file, signal, (bytes) => {
      onProgress({ step: 'preparing', doneBytes: (read += bytes), totalBytes });
    });
    digest.chunks.forEach((chunk, index) => places.set(chunk, chunkOf(file, index)));
    files.push({ path, bytes: file.size, ...digest, chunks: [...digest.chunks] });
  }
  const { kind, name } = source;
  const { id, needed } = await api.call('startUpload', {
    body: { kind, name, files },
    timeoutMs: serverMs,
    signal,
  });

  const sizeOf = (chunk: ArtifactId): number => places.get(chunk)?.size ?? 0;
  const missingBytes = needed.reduce((sum, chunk) => sum + sizeOf(chunk), 0);
  let sent = 0;
  onProgress({ step: 'sending', doneBytes: 0, totalBytes: missingBytes });
  const waiting = [...needed];
  const lane = async (): Promise<void> => {
    for (let chunk = waiting.shift(); chunk !== undefined; chunk = waiting.shift()) {
      await sendChunk(api, id, chunk, places.get(chunk) ?? new Blob(), signal);
      onProgress({ step: 'sending', doneBytes: (sent += sizeOf(chunk)), totalBytes: missingBytes });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  onProgress({ step: 'verifying', doneBytes: totalBytes, totalBytes });
  return api.call('finishUpload', { params: { id }, timeoutMs: serverMs, signal });
}

/** A connection that breaks for a moment does not end the upload; a refusal does. */
async function sendChunk(
  api: ApiClient,
  id: string,
  chunk: ArtifactId,
  body: Blob,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await api.bytes(
        'PUT',
        `/api/artifacts/uploads/${encodeURIComponent(id)}/chunks/${chunk}`,
        AbortSignal.any([signal, AbortSignal.timeout(chunkMs)]),
        body,
      );
      return;
    } catch (error) {
      const { code } = CoveyError.from(error);
      if (attempt === tries || (code !== 'controller_unreachable' && code !== 'timeout')) throw error;
      await pause(firstPauseMs * 2 ** attempt, signal);
    }
  }
}

async function digestOf(
  file: File,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): Promise<FileDigest> {
  const known = digests.get(file);
  if (known !== undefined) {
    onBytes(file.size);
    return known;
  }
  const count = Math.ceil(file.size / ARTIFACT_CHUNK_BYTES);
  const whole = count > 1 ? createSha256() : null;
  const chunks: ArtifactId[] = [];
  let executable = false;
  for (let index = 0; index < count; index++) {
    signal.throwIfAborted();
    const bytes = await bytesOf(file, index);
    if (index === 0) executable = looksExecutable(bytes);
    chunks.push(await sha256(bytes));
    for (let at = 0; whole !== null && at < bytes.length; at += pieceBytes) {
      whole.update(bytes.subarray(at, at + pieceBytes));
      await nextTask();
    }
    onBytes(bytes.length);
  }
  const [only] = chunks;
  const digest: FileDigest = {
    sha256: (whole?.hex() as ArtifactId | undefined) ?? only ?? (await sha256(new Uint8Array())),
    chunks,
    executable,
  };
  digests.set(file, digest);
  return digest;
}

async function bytesOf(file: File, index: number): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return new Uint8Array(await chunkOf(file, index).arrayBuffer());
  } catch (error) {
    throw new CoveyError(
      'artifact_invalid',
      `${file.name} cannot be read: it was changed or removed after it was chosen. Choose it again.`,
      {},
      error,
    );
  }
}

function chunkOf(file: File, index: number): Blob {
  return file.slice(index * ARTIFACT_CHUNK_BYTES, (index + 1) * ARTIFACT_CHUNK_BYTES);
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<ArtifactId> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') as ArtifactId;
}

/** Browsers do not say whether a file may be run: scripts (`#!`) and ELF or Mach-O programs say it themselves. */
export function looksExecutable(bytes: Uint8Array): boolean {
  const [a, b, c, d] = bytes;
  if (a === 0x23 && b === 0x21) return true;
  if (a === 0x7f && b === 0x45 && c === 0x4c && d === 0x46) return true;
  return (a === 0xcf || a === 0xce) && b === 0xfa && c === 0xed && d === 0xfe;
}

/** Lets the page draw and answer in between. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      if (signal.aborted) reject(new CoveyError('cancelled', 'Cancelled.'));
      else resolve();
    }
    signal.addEventListener('abort', done);
  });
}
