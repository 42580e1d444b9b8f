import { webcrypto, type X509Certificate } from 'node:crypto';
import type * as X509 from '@peculiar/x509';
import type { TlsCertificate } from '../http/http-server.ts';
import type { LanNames } from './lan-names.ts';

/** The CA exists for HTTPS on the LAN alone: membership of the covey never rests on it. */
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const dayMs = 86_400_000;
/** A clock that is a day or two behind must not make a new certificate invalid. */
const backdateMs = 2 * dayMs;
export const leafLifeMs = 90 * dayMs;
const authorityLifeMs = 3_650 * dayMs;

/** Loaded only here: a certificate is made a few times a year. The first is what the second requires to be there. */
async function library(): Promise<typeof X509> {
  await import('reflect-metadata');
  return import('@peculiar/x509');
}

/** A key and a certificate that may sign those of servers and nothing else. @param now epoch ms */
export async function createAuthority(name: string, now: number): Promise<TlsCertificate> {
  const x509 = await library();
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serial(),
      name: `CN=${distinguished(`Covey on ${name}`)}`,
      notBefore: new Date(now - backdateMs),
      notAfter: new Date(now + authorityLifeMs),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { key: await keyPem(keys.privateKey), cert: `${certificate.toString('pem').trim()}\n` };
}

/** A server's certificate for these names, signed by `authority`, whose certificate follows it. @param now epoch ms */
export async function createLeaf(
  authority: TlsCertificate,
  names: LanNames,
  now: number,
): Promise<TlsCertificate> {
  const x509 = await library();
  const issuer = new x509.X509Certificate(authority.cert);
  const signingKey = await webcrypto.subtle.importKey('pkcs8', derOf(authority.key), algorithm, false, [
    'sign',
  ]);
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const alternatives = [
    ...names.hosts.map((value) => ({ type: 'dns' as const, value })),
    ...['localhost'].map((value) => ({ type: 'dns' as const, value })),
    ...[...names.addresses, '127.0.0.1', '::1'].map((value) => ({ type: 'ip' as const, value })),
  ];
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: serial(),
      subject: 'CN=covey',
      issuer: issuer.subject,
      notBefore: new Date(now - backdateMs),
      notAfter: new Date(now + leafLifeMs),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension(alternatives),
        await x509.AuthorityKeyIdentifierExtension.create(issuer, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return {
    key: await keyPem(keys.privateKey),
    cert: `${certificate.toString('pem').trim()}\n${authority.cert}`,
  };
}

/** The names that a certificate lacks, of those wished. */
export function missingNames(certificate: X509Certificate, names: LanNames): string[] {
  return [
    ...names.hosts.filter((host) => certificate.checkHost(host) === undefined),
    ...names.addresses.filter((address) => certificate.checkIP(address) === undefined),
  ];
}

/** SHA-256 of the DER, in lower-case hex without colons. */
export function fingerprintOf(certificate: X509Certificate): string {
  return certificate.fingerprint256.replaceAll(':', '').toLowerCase();
}

/** RFC 5280, 4.1.2.2: positive and unique. */
function serial(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return Buffer.from(bytes).toString('hex');
}

/** RFC 4514, 2.4: what a name may hold unescaped, and no more. */
function distinguished(text: string): string {
  return text.replace(/[^\p{L}\p{N} ._-]/gu, '-').slice(0, 64);
}

async function keyPem(key: webcrypto.CryptoKey): Promise<string> {
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  const lines = pkcs8.match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`;
}

function derOf(pem: string): Buffer<ArrayBuffer> {
  return Buffer.from(pem.replace(/-----[A-Z ]+-----/g, ''), 'base64');
}
