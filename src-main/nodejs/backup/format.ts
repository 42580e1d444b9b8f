import { createHash, createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { CoveyError } from '#shared/errors.ts';

/**
 * A backup file: a header of 64 bytes, then chunks of AES-256-GCM.
 *
 *     0  8  "COVEYBAK"
 *     8  1  version of this format, 1
 *     9  3  scrypt: log2 of N, r, p
 *    12 16  salt
 *    28  7  nonce prefix
 *    35  1  zero
 *    36  4  plaintext bytes of every chunk but the last, big-endian
 *    40 16  first half of HMAC-SHA-256 over bytes 0-39, by the check key: tells a wrong passphrase
 *    56  8  beginning of SHA-256 over bytes 0-55: tells a damaged header
 *
 * scrypt makes 64 bytes: the key of the chunks and the check key. A chunk's nonce is prefix, counter (4 bytes) and 1
 * for the last chunk, else 0, so that none can be left out, moved or cut off (the STREAM construction, Hoang et al.
 * 2015); the whole header is every chunk's additional data.
 */
export const headerBytes = 64;
export const tagBytes = 16;
const magic = Buffer.from('COVEYBAK', 'latin1');
const formatVersion = 1;
/** RFC 7914 with 128 MiB: a second or less here, and the most expensive part of every guess. */
const cost = { log2N: 17, r: 8, p: 1 } as const;
const chunkBytes = 1024 * 1024;
/** A file may ask for no more work and memory than this, whoever made it. */
const most = { log2N: 18, r: 8, p: 4, chunkBytes: 4 * 1024 * 1024 } as const;
const least = { log2N: 14, chunkBytes: 4096 } as const;

export interface Keys {
  readonly chunk: Buffer;
  readonly check: Buffer;
}

export interface Header {
  readonly bytes: Buffer;
  readonly chunkBytes: number;
  readonly noncePrefix: Buffer;
}

/** A new header with its keys. */
export async function createHeader(passphrase: string): Promise<{ header: Header; keys: Keys }> {
  const bytes = Buffer.alloc(headerBytes);
  magic.copy(bytes);
  bytes.set([formatVersion, cost.log2N, cost.r, cost.p], 8);
  randomBytes(16).copy(bytes, 12);
  randomBytes(7).copy(bytes, 28);
  bytes.writeUInt32BE(chunkBytes, 36);
  const keys = await deriveKeys(passphrase, bytes);
  checkOf(bytes, keys).copy(bytes, 40);
  checksumOf(bytes).copy(bytes, 56);
  return { header: { bytes, chunkBytes, noncePrefix: bytes.subarray(28, 35) }, keys };
}

/**
 * Reads a header and makes its keys. Throws `backup_invalid` when it is none or damaged, `passphrase_wrong` when it
 * is in order and the passphrase is not.
 * @param bytes what the file begins with, maybe too short
 */
export async function openHeader(bytes: Buffer, passphrase: string): Promise<{ header: Header; keys: Keys }> {
  if (bytes.length < magic.length || !bytes.subarray(0, magic.length).equals(magic)) {
    throw invalid('is not a backup of Covey');
  }
  if (bytes.length < headerBytes) throw invalid('is cut off');
  if (!checksumOf(bytes).equals(bytes.subarray(56, 64))) throw invalid('is damaged in its first bytes');
  if (bytes[8] !== formatVersion) {
    throw invalid(`has format ${bytes[8]}, which this version of Covey does not know: install a newer one`);
  }
  const [log2N = 0, r = 0, p = 0] = bytes.subarray(9, 12);
  const size = bytes.readUInt32BE(36);
  const fits =
    log2N >= least.log2N &&
    log2N <= most.log2N &&
    r === most.r &&
    p >= 1 &&
    p <= most.p &&
    size >= least.chunkBytes &&
    size <= most.chunkBytes;
  if (!fits) throw invalid('asks for more work than a backup may');
  const keys = await deriveKeys(passphrase, bytes);
  if (!timingSafeEqual(checkOf(bytes, keys), bytes.subarray(40, 56))) {
    throw new CoveyError('passphrase_wrong', 'The passphrase is not the one that this backup was made with.');
  }
  const kept = Buffer.from(bytes.subarray(0, headerBytes));
  return { header: { bytes: kept, chunkBytes: size, noncePrefix: kept.subarray(28, 35) }, keys };
}

export function nonceOf(header: Header, index: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  header.noncePrefix.copy(nonce);
  nonce.writeUInt32BE(index, 7);
  nonce[11] = last ? 1 : 0;
  return nonce;
}

/** @param why continues "The file ..." */
export function invalid(why: string): CoveyError {
  return new CoveyError('backup_invalid', `The file ${why}.`, { field: 'file' });
}

const minCharacters = 10;
const minDifferent = 5;
const maxCharacters = 1024;

/** Throws `passphrase_weak`. */
export function requireStrong(passphrase: string): void {
  const characters = [...passphrase.normalize('NFC')];
  const weak = (why: string): CoveyError =>
    new CoveyError('passphrase_weak', `The passphrase ${why}. Several unrelated words are a good one.`, {
      field: 'passphrase',
    });
  if (characters.length < minCharacters) throw weak(`must have at least ${minCharacters} characters`);
  if (characters.length > maxCharacters) throw weak(`may have at most ${maxCharacters} characters`);
  if (new Set(characters).size < minDifferent) {
    throw weak(`must have at least ${minDifferent} different characters`);
  }
}

function deriveKeys(passphrase: string, header: Buffer): Promise<Keys> {
  const [log2N = 0, r = 0, p = 0] = header.subarray(9, 12);
  // The same letters may be written in several ways; keyboards of different systems do.
  const normal = passphrase.normalize('NFC');
  const N = 2 ** log2N;
  return new Promise((resolve, reject) => {
    scrypt(
      normal,
      header.subarray(12, 28),
      64,
      { N, r, p, maxmem: 128 * N * r * 2 + 1024 * 1024 },
      (error, key) => {
        if (error) reject(error);
        else resolve({ chunk: key.subarray(0, 32), check: key.subarray(32) });
      },
    );
  });
}

function checkOf(header: Buffer, keys: Keys): Buffer {
  return createHmac('sha256', keys.check).update(header.subarray(0, 40)).digest().subarray(0, 16);
}

function checksumOf(header: Buffer): Buffer {
  return createHash('sha256').update(header.subarray(0, 56)).digest().subarray(0, 8);
}
