import { open, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { GgufError, GgufHeader } from '#shared/gguf/format.ts';
import { MAX_HEADER_BYTES, parseGgufHeader } from '#shared/gguf/header.ts';
import { summariseModel } from '#shared/gguf/summarise.ts';
import type { ModelInfo } from '#shared/domain/model-info.ts';
import { err, ok, type Result } from '#shared/lib/result.ts';
import { abortError } from './abort.ts';
import { hashModel } from './model-hash.ts';
import { modelStem, parseShardName, shardNames } from './shards.ts';

export interface InspectedModel {
  /** What llama-server is given: the file, or the first shard. */
  readonly path: string;
  /** All files, in shard order. */
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
  readonly info: ModelInfo;
  /** See hashModel: identity, not integrity. */
  readonly hash: string;
}

export interface InspectOptions {
  readonly signal?: AbortSignal;
  /** How long the file system may take altogether; a hanging network drive ends in `timeout`. */
  readonly timeoutMs?: number;
}

const FIRST_READ_BYTES = 1024 * 1024;

/**
 * Reads a model's header(s) and says what it is. Refuses with: `model_file_not_found`, `model_file_unreadable`
 * (no permission, a directory, a device), `model_file_empty`, `model_not_gguf`, `model_truncated` (bytes expected
 * and found), `model_unsupported`, `model_invalid`, `model_shard_missing`, `timeout`, `cancelled`.
 * @param path any file of the model; of a model in shards, any one of them
 */
export async function inspectModelFile(
  path: string,
  options: InspectOptions = {},
): Promise<Result<InspectedModel, CoveyError>> {
  const timeoutMs = options.timeoutMs ?? 15_000;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]);
  try {
    return ok(await raceAbort(inspect(path, signal), signal));
  } catch (thrown) {
    if (options.signal?.aborted === true) return err(abortError(options.signal, `reading ${path}`));
    if (timeout.aborted) {
      return err(
        new CoveyError('timeout', `${path} could not be read within ${timeoutMs / 1000} s`, {
          field: 'model',
        }),
      );
    }
    return err(thrown instanceof CoveyError ? thrown : fileError(path, thrown));
  }
}

async function inspect(path: string, signal: AbortSignal): Promise<InspectedModel> {
  const opened: FileHandle[] = [];
  try {
    const given = await openPart(path, signal, opened);
    const paths = shardPaths(path, given.header);
    const parts: Part[] = [];
    for (const shard of paths) {
      parts.push(shard === path ? given : await openShard(shard, paths.length, signal, opened));
    }
    const summary = summariseModel(parts, modelStem(basename(path)));
    if (!summary.ok) {
      const { code, message, field } = summary.error;
      throw refusal(
        code === 'unsupported' ? 'model_unsupported' : 'model_invalid',
        path,
        `${message} (${field})`,
      );
    }
    const hash = await hashModel(
      parts.map((part) => ({
        handle: part.handle,
        bytes: part.fileBytes,
        headerBytes: part.header.dataOffset,
      })),
      signal,
    );
    const files = parts.map((part) => ({ path: part.path, bytes: part.fileBytes }));
    return { path: paths[0] as string, files, info: summary.value, hash };
  } finally {
    await Promise.allSettled(opened.map((handle) => handle.close()));
  }
}

interface Part {
  readonly path: string;
  readonly handle: FileHandle;
  readonly header: GgufHeader;
  readonly fileBytes: number;
}

async function openShard(
  path: string,
  count: number,
  signal: AbortSignal,
  opened: FileHandle[],
): Promise<Part> {
  try {
    return await openPart(path, signal, opened);
  } catch (thrown) {
    const error = thrown instanceof CoveyError ? thrown : fileError(path, thrown);
    if (error.code !== 'model_file_not_found') throw error;
    throw refusal('model_shard_missing', path, `it is one of the model's ${count} files and is not there`);
  }
}

async function openPart(path: string, signal: AbortSignal, opened: FileHandle[]): Promise<Part> {
  try {
    // Opening a pipe or a device could block or act: look first.
    const status = await stat(path);
    if (!status.isFile()) {
      throw refusal(
        'model_file_unreadable',
        path,
        status.isDirectory() ? 'it is a directory' : 'it is not a file',
      );
    }
    signal.throwIfAborted();
    const handle = await open(path, 'r');
    opened.push(handle);
    const fileBytes = (await handle.stat()).size;
    return { path, handle, fileBytes, header: await readHeader(path, handle, fileBytes, signal) };
  } catch (thrown) {
    signal.throwIfAborted();
    throw thrown instanceof CoveyError ? thrown : fileError(path, thrown);
  }
}

async function readHeader(
  path: string,
  handle: FileHandle,
  fileBytes: number,
  signal: AbortSignal,
): Promise<GgufHeader> {
  let prefix = Buffer.alloc(0);
  let wanted = Math.min(FIRST_READ_BYTES, fileBytes);
  for (;;) {
    signal.throwIfAborted();
    const larger = Buffer.alloc(wanted);
    prefix.copy(larger);
    const { bytesRead } = await handle.read(larger, prefix.length, wanted - prefix.length, prefix.length);
    prefix = larger.subarray(0, prefix.length + bytesRead);
    // A file that shrinks while it is read ends here too.
    const result = parseGgufHeader(prefix, bytesRead === 0 ? prefix.length : fileBytes);
    if (result.kind === 'ok') return result.header;
    if (result.kind === 'error') throw headerError(path, result.error, prefix);
    // Doubling keeps the work linear, however little more the parser asks for.
    wanted = Math.min(
      fileBytes,
      Math.max(result.atLeastBytes, Math.min(prefix.length * 2, MAX_HEADER_BYTES)),
    );
  }
}

const headerCodes: Readonly<Record<GgufError['code'], ErrorCode>> = {
  empty: 'model_file_empty',
  not_gguf: 'model_not_gguf',
  big_endian: 'model_unsupported',
  unsupported_version: 'model_unsupported',
  truncated: 'model_truncated',
  invalid: 'model_invalid',
};

function headerError(path: string, error: GgufError, prefix: Uint8Array): CoveyError {
  const where = error.code === 'invalid' ? ` (${error.field})` : '';
  const what = error.code === 'not_gguf' ? describeContent(prefix) : '';
  return refusal(headerCodes[error.code], path, `${error.message}${where}${what}`);
}

/** A hint at what stands there instead of a model. */
function describeContent(prefix: Uint8Array): string {
  const start = Buffer.from(prefix.subarray(0, 512)).toString('latin1');
  if (start.startsWith('version https://git-lfs'))
    return '; it is a Git LFS pointer, the file itself was not fetched';
  if (/^\s*<(!doctype|html)/i.test(start)) return '; it is a web page';
  return /^[\x09\x0a\x0d\x20-\x7e]*$/.test(start) ? '; it looks like a text file' : '';
}

/** The files of the model that `header`, found at `path`, is part of. */
function shardPaths(path: string, header: GgufHeader): string[] {
  const declared = header.metadata.get('split.count');
  const count =
    declared === undefined || declared.type === 'str' || declared.type === 'arr' ? 1 : Number(declared.value);
  if (count <= 1) return [path];
  const shard = parseShardName(basename(path));
  if (shard === null || shard.count !== count) {
    throw refusal(
      'model_shard_missing',
      path,
      `it is one of ${count} files of a model, which must be named NAME-00001-of-${String(count).padStart(5, '0')}.gguf`,
    );
  }
  return shardNames(shard).map((name) => join(dirname(path), name));
}

function refusal(code: ErrorCode, path: string, reason: string): CoveyError {
  return new CoveyError(code, `${path}: ${reason}`, { field: 'model' });
}

function fileError(path: string, thrown: unknown): CoveyError {
  const code = (thrown as NodeJS.ErrnoException | null)?.code;
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
    case 'ERR_INVALID_ARG_VALUE':
      return refusal('model_file_not_found', path, 'there is no such file on this node');
    case 'EACCES':
    case 'EPERM':
      return refusal('model_file_unreadable', path, 'this user may not read it');
    default:
      return refusal(
        'model_file_unreadable',
        path,
        thrown instanceof Error ? thrown.message : String(thrown),
      );
  }
}

/** Settles with `work`, or rejects as soon as the signal fires; the work ends by itself at its next check. */
async function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => {
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  });
  work.catch(() => undefined);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
