import { createPrivateKey, X509Certificate } from 'node:crypto';
import { chmod, mkdir, open, readFile, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { nodeIdOfCertificate } from './node-id.ts';
import { createSelfSigned } from './self-signed.ts';

/** Who this machine is. `keyPem` is the only long-lived secret; it stays in memory and in `key.pem`. */
export interface Identity {
  readonly nodeId: NodeId;
  /** PKCS #8. */
  readonly keyPem: string;
  readonly certPem: string;
  /** Epoch ms, to the second. */
  readonly createdAt: number;
}

export interface IdentityOptions {
  readonly logger: Logger;
  /** Epoch ms, for a new certificate. */
  readonly now: () => number;
}

const keyFile = 'key.pem';
const certFile = 'cert.pem';

/** In the data directory while a restore replaces what is there: a new identity would take the restored one's place. */
export const restoreMarker = 'restore-incomplete';

/**
 * Reads the identity in `directory` (`<data>/identity`), or makes one when there is none yet. Both files
 * appear together or not at all. What is there is never replaced: a damaged or mismatched pair throws
 * `data_directory_unusable` naming the file, because a new key would be a new machine to everyone else.
 */
export async function ensureIdentity(directory: string, options: IdentityOptions): Promise<Identity> {
  const present = await readIdentity(directory, options.logger);
  if (present) return present;
  const marker = join(dirname(directory), restoreMarker);
  if (await exists(marker)) {
    throw new CoveyError(
      'data_directory_unusable',
      `A restore into ${dirname(directory)} was interrupted. Run "covey restore" again, or delete ${marker} to begin as a new machine.`,
      { field: 'data' },
    );
  }
  await create(directory, options.now());
  return read(directory);
}

/** null: there is none. Throws as `ensureIdentity`; nothing is made, but files that others could read are closed. */
export async function readIdentity(directory: string, logger: Logger): Promise<Identity | null> {
  const present = await listing(directory);
  if (present.length === 0) return null;
  for (const name of [keyFile, certFile]) {
    if (!present.includes(name)) {
      throw unusable(join(directory, name), `is missing beside ${name === keyFile ? certFile : keyFile}`);
    }
  }
  await restrict(directory, 0o700, logger);
  await restrict(join(directory, keyFile), 0o600, logger);
  await restrict(join(directory, certFile), 0o600, logger);
  return read(directory);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function listing(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function create(directory: string, now: number): Promise<void> {
  const { keyPem, certPem } = await createSelfSigned(now);
  // The data directory is locked, so what is left under this name is of a creation that was cut off.
  const temporary = `${directory}.new`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true, mode: 0o700 });
  await writeDurably(join(temporary, keyFile), keyPem);
  await writeDurably(join(temporary, certFile), certPem);
  await syncDirectory(temporary);
  // An empty directory may be in the way; anything in it would have been read instead.
  await rmdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rename(temporary, directory);
  await syncDirectory(dirname(directory));
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Windows cannot open a directory; there the rename is durable with the next flush of the volume. */
async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function restrict(path: string, mode: number, logger: Logger): Promise<void> {
  if (process.platform === 'win32') return;
  const found = (await stat(path)).mode & 0o777;
  if ((found & ~mode) === 0) return;
  await chmod(path, mode);
  logger.warn('others could read an identity file, its mode was corrected', {
    path,
    found: found.toString(8),
    now: mode.toString(8),
  });
}

async function read(directory: string): Promise<Identity> {
  const keyPath = join(directory, keyFile);
  const certPath = join(directory, certFile);
  const keyPem = await readFile(keyPath, 'utf8');
  const certPem = await readFile(certPath, 'utf8');
  const key = parse(keyPath, 'is not a private key in PEM form', () => createPrivateKey(keyPem));
  if (key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw unusable(keyPath, 'holds a key that is not ECDSA P-256');
  }
  const certificate = parse(certPath, 'is not a certificate in PEM form', () => new X509Certificate(certPem));
  if (!certificate.checkPrivateKey(key)) throw unusable(certPath, `does not belong to ${keyFile}`);
  return {
    nodeId: nodeIdOfCertificate(certificate),
    keyPem,
    certPem,
    createdAt: certificate.validFromDate.getTime(),
  };
}

function parse<T>(path: string, fault: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw unusable(path, fault, error);
  }
}

function unusable(path: string, fault: string, cause?: unknown): CoveyError {
  return new CoveyError(
    'data_directory_unusable',
    `${path} ${fault}. Restore it from a backup ("covey restore"). To start over as a new machine, move the whole identity directory away and join again.`,
    { field: 'data' },
    cause,
  );
}
