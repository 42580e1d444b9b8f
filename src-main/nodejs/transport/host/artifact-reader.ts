import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import type { TLSSocket } from 'node:tls';
import { CoveyError, isErrorCode } from '#shared/errors.ts';
import type { ArtifactRead } from '#shared/host/transport.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { encodeFrame, readFrame } from '../frames.ts';
import { artifactLimits } from './artifact-protocol.ts';
import type { Reach } from './reach.ts';

/** The reading side of `covey-artifact`. */
export interface ArtifactReader {
  /** See `Transport.readArtifact`. */
  read(read: ArtifactRead, signal: AbortSignal): Promise<number>;
  close(): void;
}

/** How long a connection waits for its next part. */
const keepMs = 10_000;
/** What is taken from the socket before it is on the disk. */
const maxUnwrittenBytes = 8 * 1024 * 1024;
const writeBytes = 1024 * 1024;

export function createArtifactReader(reach: Reach): ArtifactReader {
  /** By peer and grant. */
  const kept = new Map<string, { readonly socket: TLSSocket; readonly timer: NodeJS.Timeout }[]>();

  const take = (key: string): TLSSocket | null => {
    const list = kept.get(key) ?? [];
    for (let entry = list.pop(); entry; entry = list.pop()) {
      clearTimeout(entry.timer);
      if (!entry.socket.destroyed && !entry.socket.readableEnded) return entry.socket;
    }
    kept.delete(key);
    return null;
  };
  const keep = (key: string, socket: TLSSocket): void => {
    const forget = (): void => {
      socket.destroy();
      const left = (kept.get(key) ?? []).filter((entry) => entry.socket !== socket);
      if (left.length > 0) kept.set(key, left);
      else kept.delete(key);
    };
    const timer = setTimeout(forget, keepMs);
    timer.unref();
    kept.set(key, [...(kept.get(key) ?? []), { socket, timer }]);
  };

  const dial = async ({ target, grant }: ArtifactRead, signal: AbortSignal): Promise<TLSSocket> => {
    const { socket } = await reach.open(
      {
        nodeId: target.peer,
        name: target.peerName,
        addresses: target.addresses,
        unreachable: 'artifact_unreachable',
        alpn: ALPN.artifact,
        preamble: { protocol: PROTOCOL_VERSION, target: 'artifact', grant },
      },
      { timeoutMs: target.timeoutMs, signal },
    );
    socket.on('error', () => undefined);
    return socket;
  };

  const exchange = async (socket: TLSSocket, read: ArtifactRead, signal: AbortSignal): Promise<number> => {
    const { part, target, path } = read;
    const lost = (): CoveyError =>
      new CoveyError('artifact_unreachable', `${target.peerName} ended the connection before all was here.`);
    socket.write(encodeFrame(JSON.stringify(part)));
    const json = await readFrame(socket, {
      maxBytes: artifactLimits.answerBytes,
      timeoutMs: artifactLimits.silenceMs,
      whatFor: `${target.peerName} to answer`,
      closed: lost,
      signal,
    });
    const bytes = answeredBytes(json, read);
    const flags =
      part.what === 'bytes' ? constants.O_WRONLY : constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC;
    const file = await open(path, flags, 0o600);
    try {
      await receive(socket, file, part.what === 'bytes' ? part.offset : 0, bytes, lost, signal);
    } finally {
      await file.close();
    }
    return bytes;
  };

  return {
    async read(read, signal) {
      const key = `${read.target.peer} ${read.grant}`;
      const old = take(key);
      let socket = old ?? (await dial(read, signal));
      for (;;) {
        try {
          const bytes = await exchange(socket, read, signal);
          keep(key, socket);
          return bytes;
        } catch (error) {
          // A refusal leaves the connection as it was.
          if (error instanceof RefusedPart) keep(key, socket);
          else socket.destroy();
          const stale =
            socket === old && error instanceof CoveyError && error.code === 'artifact_unreachable';
          if (!stale || signal.aborted) throw error;
          socket = await dial(read, signal);
        }
      }
    },
    close() {
      for (const list of kept.values())
        for (const { socket, timer } of list) {
          clearTimeout(timer);
          socket.destroy();
        }
      kept.clear();
    },
  };
}

class RefusedPart extends CoveyError {}

/** How many bytes follow. Throws the other side's refusal. */
function answeredBytes(json: string, { part, target }: ArtifactRead): number {
  const value = parseAnswer(json);
  if (value?.ok === false && typeof value.error?.code === 'string') {
    const code = isErrorCode(value.error.code) ? value.error.code : 'artifact_unreachable';
    throw new RefusedPart(code, String(value.error.message).slice(0, 1_024));
  }
  const bytes = value?.ok === true ? value.bytes : null;
  const max = part.what === 'bytes' ? part.length : artifactLimits.partBytes;
  if (
    typeof bytes !== 'number' ||
    !Number.isSafeInteger(bytes) ||
    bytes < (part.what === 'bytes' ? max : 0) ||
    bytes > max
  ) {
    throw new CoveyError(
      'artifact_corrupt',
      `${target.peerName} answered with something else than was asked for.`,
    );
  }
  return bytes;
}

interface Answer {
  readonly ok?: unknown;
  readonly bytes?: unknown;
  readonly error?: { readonly code?: unknown; readonly message?: unknown } | null;
}

function parseAnswer(json: string): Answer | null {
  try {
    return JSON.parse(json) as Answer | null;
  } catch {
    return null;
  }
}

/** Writes the next `bytes` of the stream to the file, in larger pieces than they come in. */
function receive(
  socket: TLSSocket,
  file: FileHandle,
  offset: number,
  bytes: number,
  lost: () => CoveyError,
  signal: AbortSignal,
): Promise<void> {
  if (bytes === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    let left = bytes;
    let at = offset;
    let gathered: Buffer[] = [];
    let gatheredBytes = 0;
    let unwritten = 0;
    let writing = Promise.resolve();
    let over = false;
    const settle = (outcome: () => void): void => {
      if (over) return;
      over = true;
      clearTimeout(silence);
      socket.off('data', onData).off('end', onEnd).off('close', onEnd).off('error', onEnd);
      signal.removeEventListener('abort', onAbort);
      socket.pause();
      outcome();
    };
    const fail = (error: unknown): void =>
      settle(() => {
        // The file is closed behind the last write.
        void writing.catch(() => undefined).then(() => reject(error as Error));
      });
    const flush = (): void => {
      const pieces = gathered;
      const length = gatheredBytes;
      const position = at;
      gathered = [];
      gatheredBytes = 0;
      at += length;
      writing = writing.then(async () => {
        await writeAll(file, pieces, position);
        unwritten -= length;
        if (!over && unwritten < maxUnwrittenBytes / 2) socket.resume();
      });
      writing.catch(fail);
    };
    const onData = (piece: Buffer): void => {
      silence.refresh();
      const taken = piece.length > left ? piece.subarray(0, left) : piece;
      left -= taken.length;
      gathered.push(taken);
      gatheredBytes += taken.length;
      unwritten += taken.length;
      if (left === 0) {
        if (taken.length < piece.length) {
          // Nothing was asked for behind this.
          return fail(new CoveyError('artifact_corrupt', 'More came than was asked for.'));
        }
        flush();
        return settle(() => void writing.then(resolve, reject));
      }
      if (gatheredBytes >= writeBytes) flush();
      if (unwritten >= maxUnwrittenBytes) socket.pause();
      return undefined;
    };
    const onEnd = (): void => fail(lost());
    const onAbort = (): void => fail(CoveyError.from(signal.reason));
    const silence = setTimeout(
      () => fail(new CoveyError('artifact_unreachable', `Nothing came for ${artifactLimits.silenceMs} ms.`)),
      artifactLimits.silenceMs,
    );
    if (signal.aborted) return onAbort();
    if (socket.destroyed) return onEnd();
    signal.addEventListener('abort', onAbort, { once: true });
    socket.on('data', onData).on('end', onEnd).on('close', onEnd).on('error', onEnd);
    return undefined;
  });
}

async function writeAll(file: FileHandle, pieces: Buffer[], position: number): Promise<void> {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const { bytesWritten } = await file.writev(pieces, position);
  if (bytesWritten === total) return;
  const rest = Buffer.concat(pieces).subarray(bytesWritten);
  for (let done = 0; done < rest.length;) {
    const written = await file.write(rest, done, rest.length - done, position + bytesWritten + done);
    done += written.bytesWritten;
  }
}
