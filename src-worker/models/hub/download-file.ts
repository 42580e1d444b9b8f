import { createHash, type Hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { open, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { CoveyError } from '#shared/errors.ts';
import { backoffMs } from '#shared/lib/backoff.ts';
import { abortError } from '../abort.ts';
import { namedDiskError, type Meter, writeAtomically } from '../files.ts';
import { answerError } from './hub-api.ts';
import type { RemoteFile } from './hub-api.ts';
import { ConnectionError, hubRequest, type HubSettings } from './request.ts';

/** Tries in a row that bring no byte before the download is given up. */
const MAX_FRUITLESS = 4;
const HASH_BYTES = 4 * 1024 * 1024;

/** What the partial file is a part of; a partial file of anything else is not resumed. */
const partSchema = z.object({ sha256: z.string(), bytes: z.number(), etag: z.string().nullable() });

/** How much of a file lies in `folder` from an earlier try. */
export async function partialBytes(folder: string, name: string, file: RemoteFile): Promise<number> {
  const done = await stat(join(folder, name)).catch(() => null);
  if (done !== null) return done.size;
  const part = await readPart(folder, name);
  if (part?.sha256 !== file.sha256 || part.bytes !== file.bytes) return 0;
  const size = (await stat(join(folder, `${name}.part`)).catch(() => null))?.size ?? 0;
  return size <= file.bytes ? size : 0;
}

/**
 * Fetches one file into `folder` as `name`, where it appears only once its SHA-256 is right. Until then it is
 * `name.part`, which stays when the download ends early and is continued by the next one. A connection that breaks
 * is taken up where it broke. Rejects with CoveyError.
 */
export async function downloadFile(
  settings: HubSettings,
  file: RemoteFile,
  folder: string,
  name: string,
  meter: Meter,
  signal: AbortSignal,
): Promise<void> {
  const path = join(folder, `${name}.part`);
  const resumed = await partialBytes(folder, name, file);
  if ((await stat(join(folder, name)).catch(() => null)) !== null) {
    meter.advance(resumed);
    return;
  }
  try {
    let sha256 = await fetchAll(settings, file, folder, name, meter, resumed, signal);
    if (sha256 !== file.sha256 && resumed > 0) {
      // What was taken up again may be at fault, not what the hub sends.
      await removePart(folder, name);
      meter.advance(-file.bytes);
      sha256 = await fetchAll(settings, file, folder, name, meter, 0, signal);
    }
    if (sha256 !== file.sha256) {
      await removePart(folder, name);
      const message = `what was downloaded as ${file.path} has not the SHA-256 that the hub names`;
      throw new CoveyError('download_corrupt', message);
    }
    await rename(path, join(folder, name));
    await rm(join(folder, `${name}.json`), { force: true });
  } catch (thrown) {
    if (signal.aborted) throw abortError(signal, `downloading ${file.path}`);
    throw namedDiskError(thrown, folder, file.bytes);
  }
}

/** Fetches what is missing after the first `resumed` bytes; returns the SHA-256 of the whole. */
async function fetchAll(
  settings: HubSettings,
  file: RemoteFile,
  folder: string,
  name: string,
  meter: Meter,
  resumed: number,
  signal: AbortSignal,
): Promise<string> {
  const path = join(folder, `${name}.part`);
  const target = await open(path, resumed > 0 ? 'r+' : 'w', 0o600);
  let position = resumed;
  meter.advance(resumed);
  try {
    let hash = await hashOfStart(target, resumed, signal);
    for (let fruitless = 0; position < file.bytes;) {
      const before = position;
      try {
        const response = await requestFrom(settings, file, folder, name, position, signal);
        if (response.statusCode === 200 && position > 0) {
          meter.advance(-position);
          position = 0;
          hash = createHash('sha256');
        }
        for await (const piece of response as AsyncIterable<Buffer>) {
          if (position + piece.length > file.bytes) {
            response.destroy();
            throw new CoveyError(
              'download_failed',
              `the hub sends more than the ${file.bytes} bytes of ${file.path}`,
            );
          }
          await target.write(piece, 0, piece.length, position);
          hash.update(piece);
          position += piece.length;
          meter.advance(piece.length);
        }
        if (position < file.bytes) throw new ConnectionError('the connection ended early');
      } catch (thrown) {
        if (signal.aborted || thrown instanceof CoveyError || isDiskError(thrown)) throw thrown;
        fruitless = position > before ? 0 : fruitless + 1;
        if (fruitless === MAX_FRUITLESS) {
          const why = thrown instanceof Error ? thrown.message : String(thrown);
          const code = position === resumed ? 'hub_unreachable' : 'download_failed';
          throw new CoveyError(code, `${file.path} could not be downloaded: ${why}`, {}, thrown);
        }
        const pause = { firstMs: settings.retryMs, maxMs: settings.retryMs * 8, factor: 2, jitter: 0 };
        await delay(backoffMs(pause, fruitless, 0), undefined, { signal });
      }
    }
    await target.sync();
    return hash.digest('hex');
  } finally {
    await target.close();
  }
}

/** Asks for the file from `position` on; the answer is 206 from there, or 200 from the start. */
async function requestFrom(
  settings: HubSettings,
  file: RemoteFile,
  folder: string,
  name: string,
  position: number,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const etag = position > 0 ? ((await readPart(folder, name))?.etag ?? null) : null;
  const range: Record<string, string> = position > 0 ? { range: `bytes=${position}-` } : {};
  const response = await hubRequest(settings, {
    method: 'GET',
    path: file.requestPath,
    follow: 'anywhere',
    headers: etag === null ? range : { ...range, 'if-range': etag },
    signal,
  });
  const status = response.statusCode ?? 0;
  if (status >= 500) {
    response.destroy();
    throw new ConnectionError(`the hub answered ${status}`);
  }
  if (status === 416) {
    // The part is not one of what is there now: begin again.
    response.destroy();
    await removePart(folder, name);
    throw new CoveyError(
      'download_failed',
      `the hub does not continue ${file.path} at byte ${position}; try again`,
    );
  }
  if (status !== 200 && status !== 206) throw await answerError(response, file.path, settings);
  if (status === 206 && !continues(response, position, file.bytes)) {
    response.destroy();
    throw new CoveyError('download_failed', `the hub sent another part of ${file.path} than asked for`);
  }
  const strong = response.headers.etag;
  const part = {
    sha256: file.sha256,
    bytes: file.bytes,
    etag: strong?.startsWith('"') === true ? strong : null,
  };
  await writeAtomically(join(folder, `${name}.json`), JSON.stringify(part));
  return response;
}

function continues(response: IncomingMessage, position: number, bytes: number): boolean {
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(response.headers['content-range'] ?? '');
  return match !== null && Number(match[1]) === position && (match[3] === '*' || Number(match[3]) === bytes);
}

async function readPart(folder: string, name: string): Promise<z.infer<typeof partSchema> | null> {
  try {
    return partSchema.parse(JSON.parse(await readFile(join(folder, `${name}.json`), 'utf8')));
  } catch {
    return null;
  }
}

async function removePart(folder: string, name: string): Promise<void> {
  await rm(join(folder, `${name}.part`), { force: true });
  await rm(join(folder, `${name}.json`), { force: true });
}

/** A SHA-256 that has read the first `bytes` of a file. */
async function hashOfStart(file: FileHandle, bytes: number, signal: AbortSignal): Promise<Hash> {
  const hash = createHash('sha256');
  const buffer = Buffer.alloc(Math.min(HASH_BYTES, bytes));
  for (let position = 0; position < bytes;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - position), position);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
  return hash;
}

function isDiskError(thrown: unknown): boolean {
  const code = (thrown as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EIO' || code === 'EACCES';
}
