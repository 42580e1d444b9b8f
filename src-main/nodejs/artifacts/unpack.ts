import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, mkdir, open, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Transform, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import tar from 'tar-stream';
import yauzl from 'yauzl';
import { CoveyError } from '#shared/errors.ts';
import { namingFullDisk } from '../disk-full.ts';
import {
  createUnpackGuard,
  defaultUnpackLimits,
  type UnpackGuard,
  type UnpackLimits,
} from './unpack-guard.ts';

/**
 * Unpacks a tar (plain or gzip) or zip file into `target`, which is created. Only files and directories come out,
 * with the executable bit and nothing else of their modes and owners. Leaves nothing behind when it fails.
 * @throws CoveyError `artifact_invalid` for what is no archive, is damaged, or is made to do harm; `disk_full`
 */
export async function unpack(
  archive: string,
  target: string,
  options: { readonly signal: AbortSignal; readonly limits?: UnpackLimits },
): Promise<void> {
  const guard = createUnpackGuard(archive, options.limits ?? defaultUnpackLimits);
  const kind = await kindOf(archive);
  await mkdir(target, { mode: 0o700 });
  try {
    if (kind === 'zip') await unpackZip(archive, target, guard, options.signal);
    else await unpackTar(archive, kind === 'gzip', target, guard, options.signal);
  } catch (error) {
    await rm(target, { recursive: true, force: true }).catch(() => undefined);
    if (options.signal.aborted) throw CoveyError.from(options.signal.reason);
    const named = namingFullDisk(error, target);
    if (named instanceof CoveyError) throw named;
    throw new CoveyError(
      'artifact_invalid',
      `${archive} cannot be unpacked: ${error instanceof Error ? error.message : String(error)}.`,
      { field: 'path' },
      error,
    );
  }
}

/** As `unpack`, for a plain tar that comes as a stream; what the stream ends with is thrown as it is. */
export async function unpackStream(
  source: Readable,
  name: string,
  target: string,
  options: { readonly signal: AbortSignal; readonly limits?: UnpackLimits },
): Promise<void> {
  const guard = createUnpackGuard(name, options.limits ?? defaultUnpackLimits);
  await mkdir(target, { mode: 0o700 });
  try {
    await extractTar([source], () => Infinity, target, guard, options.signal);
  } catch (error) {
    await rm(target, { recursive: true, force: true }).catch(() => undefined);
    if (options.signal.aborted) throw CoveyError.from(options.signal.reason);
    throw namingFullDisk(error, target);
  }
}

async function kindOf(archive: string): Promise<'zip' | 'gzip' | 'tar'> {
  const file = await open(archive, 'r').catch((error: unknown) => {
    throw new CoveyError('artifact_invalid', `${archive} cannot be read: ${(error as Error).message}.`, {
      field: 'path',
    });
  });
  try {
    const head = Buffer.alloc(512);
    const { bytesRead } = await file.read(head, 0, 512, 0);
    if (head.readUInt32LE(0) === 0x04034b50 || head.readUInt32LE(0) === 0x06054b50) return 'zip';
    if (head[0] === 0x1f && head[1] === 0x8b) return 'gzip';
    if (bytesRead === 512 && head.toString('latin1', 257, 262) === 'ustar') return 'tar';
    if (bytesRead === 512 && (await isEmptyTar(file))) return 'tar';
  } finally {
    await file.close();
  }
  throw new CoveyError('artifact_invalid', `${archive} is neither a tar (plain or gzip) nor a zip file.`, {
    field: 'path',
  });
}

/** Nothing but its end, two blocks of zeros or more. */
async function isEmptyTar(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat();
  if (size < 1024 || size > 65_536 || size % 512 !== 0) return false;
  const all = Buffer.alloc(size, 1);
  const { bytesRead } = await file.read(all, 0, size, 0);
  return bytesRead === size && all.every((byte) => byte === 0);
}

async function unpackTar(
  archive: string,
  zipped: boolean,
  target: string,
  guard: UnpackGuard,
  signal: AbortSignal,
): Promise<void> {
  const source = createReadStream(archive, { signal });
  const streams = zipped ? [source, createGunzip()] : [source];
  await extractTar(streams, () => source.bytesRead, target, guard, signal);
}

async function extractTar(
  streams: readonly (Readable | NodeJS.ReadWriteStream)[],
  packedSoFar: () => number,
  target: string,
  guard: UnpackGuard,
  signal: AbortSignal,
): Promise<void> {
  const extract = tar.extract();
  // What is between files counts too: an archive of nothing but long names is one that fills memory or time.
  const weighed = counting((bytes) => guard.inflated(bytes, packedSoFar()));
  const reading = pipeline([...streams, weighed, extract], { signal });
  // An entry whose archive has broken off may never end by itself.
  const broken = new AbortController();
  reading.catch((error: unknown) => broken.abort(error));
  for await (const entry of extract) {
    const { name, type, mode } = entry.header;
    entry.on('error', () => undefined);
    const kind =
      type === 'file' || type === 'contiguous-file' ? 'file' : type === 'directory' ? type : 'other';
    const path = guard.entry(name, kind);
    if (path === null || kind === 'directory') {
      if (path !== null) await mkdir(join(target, path), { recursive: true, mode: 0o700 });
      entry.resume();
      continue;
    }
    await mkdir(dirname(join(target, path)), { recursive: true, mode: 0o700 });
    await writeFile(
      entry as unknown as Readable,
      join(target, path),
      ((mode ?? 0) & 0o111) !== 0,
      (bytes) => guard.unpacked(bytes),
      broken.signal,
    ).catch((error: unknown) => {
      throw broken.signal.aborted ? broken.signal.reason : error;
    });
  }
  await reading;
}

async function unpackZip(
  archive: string,
  target: string,
  guard: UnpackGuard,
  signal: AbortSignal,
): Promise<void> {
  const zip = await yauzl.openPromise(archive, {
    lazyEntries: true,
    strictFileNames: false,
    validateEntrySizes: true,
  });
  const { size } = await stat(archive);
  let packed = 0;
  try {
    for await (const entry of zip.eachEntry()) {
      if (signal.aborted) throw CoveyError.from(signal.reason);
      // The upper half of this field is the mode where the archive was made on Unix (host system 3).
      const mode = entry.versionMadeBy >> 8 === 3 ? entry.externalFileAttributes >>> 16 : 0;
      const format = mode & 0o170000;
      const named = entry.fileName.endsWith('/') ? 'directory' : 'file';
      const plain = format === 0 || format === 0o100000 || format === 0o040000;
      const kind = plain ? named : 'other';
      const path = guard.entry(entry.fileName, kind);
      if (entry.isEncrypted()) throw new Error('it is encrypted');
      if (path === null || kind === 'directory') {
        if (path !== null) await mkdir(join(target, path), { recursive: true, mode: 0o700 });
        continue;
      }
      await mkdir(dirname(join(target, path)), { recursive: true, mode: 0o700 });
      packed += entry.compressedSize;
      // Entries may share their bytes.
      const soFar = Math.min(packed, size);
      const stream = await zip.openReadStreamPromise(entry);
      stream.on('error', () => undefined);
      await writeFile(
        stream,
        join(target, path),
        (mode & 0o111) !== 0,
        (bytes) => {
          guard.unpacked(bytes);
          guard.inflated(bytes, soFar);
        },
        signal,
      );
    }
  } finally {
    zip.close();
  }
}

function counting(onBytes: (bytes: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      try {
        onBytes(chunk.length);
        done(null, chunk);
      } catch (error) {
        done(error as Error);
      }
    },
  });
}

async function writeFile(
  source: Readable,
  path: string,
  executable: boolean,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  // Never through what is there: a name that is taken is refused.
  await pipeline(source, counting(onBytes), createWriteStream(path, { flags: 'wx', mode: 0o600 }), {
    signal,
  });
  if (executable) await chmod(path, 0o700);
}
