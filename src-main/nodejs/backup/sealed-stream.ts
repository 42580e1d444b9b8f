import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { createHeader, headerBytes, invalid, nonceOf, openHeader, tagBytes } from './format.ts';

/** Writes header and encrypted chunks of `source`; never more than two chunks are in memory. */
export async function seal(
  file: FileHandle,
  passphrase: string,
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<void> {
  const { header, keys } = await createHeader(passphrase);
  await file.writeFile(header.bytes);
  let index = 0;
  const put = async (plain: Buffer, last: boolean): Promise<void> => {
    const cipher = createCipheriv('aes-256-gcm', keys.chunk, nonceOf(header, index, last));
    cipher.setAAD(header.bytes);
    const sealed = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    index += 1;
    await file.writeFile(sealed);
  };
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  for await (const piece of source) {
    waiting.push(piece);
    waitingBytes += piece.length;
    // What fills exactly one chunk waits too: it may be the last.
    while (waitingBytes > header.chunkBytes) {
      const all = Buffer.concat(waiting);
      await put(all.subarray(0, header.chunkBytes), false);
      waiting = [all.subarray(header.chunkBytes)];
      waitingBytes -= header.chunkBytes;
    }
  }
  await put(Buffer.concat(waiting), true);
}

/** The plaintext of a sealed file, in order; only what is authentic comes out. */
export interface Unsealed {
  /** Exactly so many bytes, in pieces. Throws `backup_invalid` when there are fewer. */
  read(bytes: number): AsyncGenerator<Buffer>;
  /** Throws `backup_invalid` unless everything has been read. */
  end(): Promise<void>;
}

/**
 * Throws `backup_invalid` or `passphrase_wrong`, see `openHeader`.
 * @param fileBytes size of the file
 */
export async function unseal(file: FileHandle, fileBytes: number, passphrase: string): Promise<Unsealed> {
  const first = await readAt(file, 0, headerBytes);
  const { header, keys } = await openHeader(first, passphrase);
  const sealedBytes = header.chunkBytes + tagBytes;
  let index = 0;
  let position = headerBytes;
  let over = false;
  let rest: Buffer = Buffer.alloc(0);

  /** The next chunk into `rest`; false: there is none. */
  const next = async (): Promise<boolean> => {
    if (over) return false;
    const length = Math.min(sealedBytes, fileBytes - position);
    const last = position + length >= fileBytes;
    if (length < tagBytes) throw invalid('is cut off');
    const sealed = await readAt(file, position, length);
    if (sealed.length !== length) throw invalid('is cut off');
    const decipher = createDecipheriv('aes-256-gcm', keys.chunk, nonceOf(header, index, last));
    decipher.setAAD(header.bytes);
    decipher.setAuthTag(sealed.subarray(length - tagBytes));
    try {
      rest = Buffer.concat([decipher.update(sealed.subarray(0, length - tagBytes)), decipher.final()]);
    } catch {
      throw invalid(
        last
          ? 'is damaged near its end, or cut off'
          : `is damaged between bytes ${position} and ${position + length}`,
      );
    }
    index += 1;
    position += length;
    over = last;
    return true;
  };

  return {
    async *read(bytes) {
      let left = bytes;
      while (left > 0) {
        if (rest.length === 0 && !(await next())) throw invalid('ends too early');
        const piece = rest.subarray(0, left);
        rest = rest.subarray(piece.length);
        left -= piece.length;
        if (piece.length > 0) yield piece;
      }
    },
    async end() {
      if (rest.length === 0 && !over) await next();
      if (rest.length > 0 || !over) throw invalid('has something after its end');
    },
  };
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
