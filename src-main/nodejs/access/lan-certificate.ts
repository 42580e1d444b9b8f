import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { TlsCertificate } from '../http/http-server.ts';
import { writePrivateFile } from '../private-file.ts';
import { createAuthority, createLeaf, fingerprintOf, leafLifeMs, missingNames } from './certificates.ts';
import type { LanNames } from './lan-names.ts';

/** A certificate for HTTPS on the LAN, and what people may want to know of it. */
export interface LanCertificate {
  readonly tls: TlsCertificate;
  readonly fingerprint: string;
  /** null: the user's own. */
  readonly caFingerprint: string | null;
  readonly expiresAt: number;
}

export interface OwnCertificate extends LanCertificate {
  /** Made just now. */
  readonly isNew: boolean;
  /** Why another could not be made though it is time; the one that was there goes on. */
  readonly problem: string | null;
}

const authorityFile = 'authority.pem';
const leafFile = 'certificate.pem';
/** The CA's certificate alone, to be installed on other devices. */
export const publicAuthorityFile = 'ca.pem';

/** From two thirds of its life on, so that weeks are left to repair what keeps it from being renewed. */
const renewAfter = 2 / 3;

/**
 * The certificate of our own CA, `<data>/lan`: made at the first call, renewed in time and when this machine has
 * names that it lacks.
 * @throws CoveyError `disk_full` or `data_directory_unusable` when there is none and none can be made
 */
export async function ensureOwnCertificate(
  dataDirectory: string,
  names: LanNames,
  now: number,
  /** For tests: a disk that is full. */
  write: typeof writePrivateFile = writePrivateFile,
): Promise<OwnCertificate> {
  const directory = join(dataDirectory, 'lan');
  const current = await readPair(join(directory, leafFile)).catch(() => null);
  const authority = await readPair(join(directory, authorityFile)).catch(() => null);
  const why = authority === null ? 'there is no authority' : reasonToRenew(current, authority, names, now);
  if (current !== null && why === null) return describeOwn(current, authority, false, null);
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const issuer = authority ?? (await newAuthority(directory, names, now, write));
    const leaf = await createLeaf(issuer, names, now);
    await write(join(directory, leafFile), leaf.key + leaf.cert);
    return describeOwn(leaf, issuer, true, null);
  } catch (error) {
    // What the system says first; the rest names a temporary file.
    const reason = (error instanceof Error ? error.message : String(error)).split(',')[0]?.replace(/\.$/, '');
    const sentence = `A new certificate for LAN access could not be written to ${directory}: ${reason}.`;
    if (current === null || leafOf(current).validToDate.getTime() <= now) {
      throw new CoveyError('disk_full', sentence, { field: 'lan.enabled' }, error);
    }
    return describeOwn(current, authority, false, `${sentence} The one in use goes on.`);
  }
}

/**
 * The user's own files.
 * @throws CoveyError `config_invalid` naming the setting whose file is at fault
 */
export async function readUserCertificate(
  certificateFile: string,
  keyFile: string,
  now: number,
): Promise<LanCertificate> {
  const refuse = (field: string, what: string, cause?: unknown) =>
    new CoveyError('config_invalid', `${field}: ${what}`, { field }, cause);
  const read = async (path: string, field: string): Promise<string> => {
    try {
      return await readFile(path, 'utf8');
    } catch (error) {
      throw refuse(field, `${path} cannot be read (${(error as Error).message}).`, error);
    }
  };
  const cert = await read(certificateFile, 'lan.certificateFile');
  const key = await read(keyFile, 'lan.keyFile');
  const certificate = parse(
    () => new X509Certificate(cert),
    (error) => refuse('lan.certificateFile', `${certificateFile} holds no certificate in PEM form.`, error),
  );
  const privateKey = parse(
    () => createPrivateKey(key),
    (error) =>
      refuse('lan.keyFile', `${keyFile} holds no private key in PEM form without passphrase.`, error),
  );
  if (!certificate.checkPrivateKey(privateKey)) {
    throw refuse('lan.keyFile', `${keyFile} does not belong to ${certificateFile}.`);
  }
  const expiresAt = certificate.validToDate.getTime();
  if (expiresAt <= now) {
    const day = new Date(expiresAt).toISOString().slice(0, 10);
    throw refuse('lan.certificateFile', `${certificateFile} has expired on ${day}.`);
  }
  parse(
    () => createSecureContext({ key, cert }),
    (error) => refuse('lan.certificateFile', `${certificateFile} cannot be used: ${String(error)}.`, error),
  );
  return { tls: { key, cert }, fingerprint: fingerprintOf(certificate), caFingerprint: null, expiresAt };
}

async function newAuthority(
  directory: string,
  names: LanNames,
  now: number,
  write: typeof writePrivateFile,
): Promise<TlsCertificate> {
  const made = await createAuthority(names.hosts[0] ?? 'this machine', now);
  await write(join(directory, authorityFile), made.key + made.cert);
  await write(join(directory, publicAuthorityFile), made.cert);
  return made;
}

/** null: it is good. */
function reasonToRenew(
  current: TlsCertificate | null,
  authority: TlsCertificate,
  names: LanNames,
  now: number,
): string | null {
  if (current === null) return 'there is none';
  const leaf = leafOf(current);
  if (!leaf.verify(leafOf(authority).publicKey)) return 'it is of another authority';
  if (now >= leaf.validToDate.getTime() - leafLifeMs * (1 - renewAfter)) return 'it is old';
  const missing = missingNames(leaf, names);
  return missing.length === 0 ? null : `it lacks ${missing.join(', ')}`;
}

function describeOwn(
  tls: TlsCertificate,
  authority: TlsCertificate | null,
  isNew: boolean,
  problem: string | null,
): OwnCertificate {
  const leaf = leafOf(tls);
  return {
    tls,
    fingerprint: fingerprintOf(leaf),
    caFingerprint: authority === null ? null : fingerprintOf(leafOf(authority)),
    expiresAt: leaf.validToDate.getTime(),
    isNew,
    problem,
  };
}

/** The first certificate of the text. */
function leafOf({ cert }: TlsCertificate): X509Certificate {
  return new X509Certificate(cert);
}

/** Key and certificate in one file: they appear together or not at all. Throws when they do not fit. */
async function readPair(path: string): Promise<TlsCertificate> {
  const text = await readFile(path, 'utf8');
  const end = text.indexOf('-----BEGIN CERTIFICATE-----');
  const pair = { key: text.slice(0, end), cert: text.slice(end) };
  if (!new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key))) {
    throw new Error(`the key in ${path} does not belong to its certificate`);
  }
  return pair;
}

function parse<T>(read: () => T, refuse: (error: unknown) => CoveyError): T {
  try {
    return read();
  } catch (error) {
    throw refuse(error);
  }
}
