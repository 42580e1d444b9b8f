import { open, readFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactPart } from '#shared/host/transport.ts';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';
import { endWith, encodeFrame, readFrame } from '../frames.ts';
import type { ArtifactGrants } from './artifact-grants.ts';
import { artifactLimits, parsePart } from './artifact-protocol.ts';
import { accepted } from './accepted.ts';
import type { UploadLimit } from './upload-limit.ts';

export interface ArtifactServer {
  /** Serves one connection until the peer ends it. Rejects when the peer may not read what the grant names. */
  serve(socket: TLSSocket, peer: NodeId, grant: string): Promise<void>;
}

/** A reader may keep a connection for its next part. */
const idleMs = 60_000;
const bufferBytes = 512 * 1024;
/** Of a machine that lends only so much of its upload: see upload-limit.ts. */
const limitedBytes = 64 * 1024;
const maxManifestBytes = 64 * 1024 * 1024;
/** Trees whose files are remembered: each reader has several connections, and a manifest can be large. */
const maxRemembered = 8;

/**
 * The store's side of `covey-artifact`: reads what a grant names from the store's directory (its layout is
 * nodejs/artifacts/store.ts) and nothing else. What it serves was verified when it got its name there; the reader
 * verifies it again.
 */
export function createArtifactServer(options: {
  readonly directory: string;
  readonly grants: ArtifactGrants;
  readonly upload: UploadLimit;
}): ArtifactServer {
  const place = (folder: string, id: ArtifactId, suffix = ''): string =>
    join(options.directory, folder, id.slice(0, 2), `${id}${suffix}`);

  const remembered = new Map<ArtifactId, ReadonlySet<string>>();
  const filesOf = async (artifact: ArtifactId): Promise<ReadonlySet<string>> => {
    const known = remembered.get(artifact);
    if (known) return known;
    const path = place('trees', artifact, '.json');
    const text = await readFile(path, 'utf8').catch(() => null);
    if (text === null || text.length > maxManifestBytes) return new Set([artifact]);
    const { entries } = JSON.parse(text) as { entries: { sha256?: string }[] };
    const files = new Set<string>([artifact]);
    for (const { sha256 } of entries) if (sha256) files.add(sha256);
    const [oldest] = remembered.keys();
    if (oldest && remembered.size >= maxRemembered) remembered.delete(oldest);
    remembered.set(artifact, files);
    return files;
  };

  /** The file to send from. */
  const openPart = async (
    artifact: ArtifactId,
    part: ArtifactPart,
    allowed: () => Promise<ReadonlySet<string>>,
  ): Promise<FileHandle> => {
    if (part.what !== 'manifest' && !(await allowed()).has(part.file)) {
      throw new CoveyError('artifact_not_found', 'This file is no part of the artifact.');
    }
    const path =
      part.what === 'manifest'
        ? place('trees', artifact, '.json')
        : place(part.what === 'chunks' ? 'chunks' : 'files', part.file);
    try {
      return await open(path, 'r');
    } catch {
      throw new CoveyError(
        'artifact_not_found',
        `This machine does not have ${artifact.slice(0, 12)} (any more).`,
      );
    }
  };

  const answer = async (socket: TLSSocket, file: FileHandle, part: ArtifactPart): Promise<void> => {
    const { size } = await file.stat();
    const offset = part.what === 'bytes' ? part.offset : 0;
    const bytes = part.what === 'bytes' ? part.length : size;
    if (offset + bytes > size) throw new CoveyError('artifact_invalid', `The file has ${size} bytes only.`);
    socket.write(encodeFrame(JSON.stringify({ ok: true, bytes })));
    await send(socket, file, offset, bytes, options.upload);
  };

  return {
    async serve(socket, peer, grant) {
      const artifact = await options.grants.check(grant, peer);
      socket.setTimeout(idleMs, () => socket.destroy());
      socket.write(accepted);
      let files: Promise<ReadonlySet<string>> | null = null;
      const gone = new CoveyError('cancelled', 'The reader is done.');
      while (!socket.destroyed) {
        let json: string;
        try {
          json = await readFrame(socket, {
            maxBytes: artifactLimits.requestBytes,
            timeoutMs: idleMs,
            whatFor: 'a part to be asked for',
            closed: () => gone,
          });
        } catch (error) {
          if (error === gone || (error as CoveyError).code === 'timeout') return endWith(socket);
          throw error;
        }
        const part = parsePart(json);
        if (!part) throw new CoveyError('invalid_request', 'This is no part of an artifact.');
        try {
          const file = await openPart(artifact, part, () => (files ??= filesOf(artifact)));
          try {
            await answer(socket, file, part);
          } finally {
            await file.close();
          }
        } catch (error) {
          if (!(error instanceof CoveyError)) return void socket.destroy();
          socket.write(encodeFrame(JSON.stringify({ ok: false, error: error.toBody() })));
        }
      }
    },
  };
}

/** The next piece is read while the one before is on its way. */
async function send(
  socket: TLSSocket,
  file: FileHandle,
  offset: number,
  bytes: number,
  upload: UploadLimit,
): Promise<void> {
  const buffers = [0, 1].map(() => Buffer.allocUnsafeSlow(Math.max(1, Math.min(bufferBytes, bytes))));
  const written = [Promise.resolve(), Promise.resolve()];
  for (let done = 0, turn = 0; done < bytes; turn = 1 - turn) {
    await written[turn];
    const buffer = buffers[turn] as Buffer;
    const length = Math.min(upload.limited ? limitedBytes : buffer.length, buffer.length, bytes - done);
    const { bytesRead } = await file.read(buffer, 0, length, offset + done);
    if (bytesRead === 0) throw new Error('the file became shorter');
    const waitMs = upload.take(bytesRead);
    if (waitMs > 0) await delay(waitMs);
    written[turn] = write(socket, buffer.subarray(0, bytesRead));
    // Waited for in its turn.
    written[turn]?.catch(() => undefined);
    done += bytesRead;
  }
  await Promise.all(written);
}

function write(socket: TLSSocket, piece: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    if (socket.destroyed) return reject(new Error('the reader is gone'));
    const onClose = (): void => reject(new Error('the reader is gone'));
    socket.once('close', onClose);
    socket.write(piece, (error) => {
      socket.off('close', onClose);
      if (error) reject(error);
      else resolve();
    });
    return undefined;
  });
}
