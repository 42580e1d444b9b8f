import { createCipheriv } from 'node:crypto';
import type { SecureContext, SecureContextOptions } from 'node:tls';

/**
 * Everything of `node:tls` is used through this: a plain import would read every export, the roots of the web
 * among them, and cost the transport process more than a megabyte.
 */
export const tls = process.getBuiltinModule('node:tls');

/** Node's own build of OpenSSL lets us order the suites; Electron's BoringSSL orders them itself, by hardware. */
const suitesAreOurs = process.versions['electron'] === undefined;

/**
 * What both ends of every connection between machines use: TLS 1.3 with our key. `ca` names only ourselves:
 * peers are judged by key (pins), not by chain, and the roots of the web need not be loaded.
 */
export function tlsSettings(identity: {
  readonly keyPem: string;
  readonly certPem: string;
}): SecureContextOptions {
  return {
    key: identity.keyPem,
    cert: identity.certPem,
    ca: identity.certPem,
    minVersion: 'TLSv1.3',
    maxVersion: 'TLSv1.3',
    honorCipherOrder: true,
    ...(suitesAreOurs ? { ciphers: preferredSuites() } : {}),
  };
}

/** One context for all dials: parsing the key for each would cost more than the handshake. */
export function clientContext(identity: {
  readonly keyPem: string;
  readonly certPem: string;
}): SecureContext {
  return tls.createSecureContext(tlsSettings(identity));
}

const suites = {
  'aes-128-gcm': 'TLS_AES_128_GCM_SHA256',
  'chacha20-poly1305': 'TLS_CHACHA20_POLY1305_SHA256',
} as const;

let ordered: string | null = null;

/** The suite that this CPU computes fastest comes first. Without AES instructions that is ChaCha20. */
function preferredSuites(): string {
  if (ordered === null) {
    const data = Buffer.alloc(16 * 1024);
    const timed = (Object.keys(suites) as Array<keyof typeof suites>).map((name) => ({
      suite: suites[name],
      ms: encryptionMs(name, data),
    }));
    timed.sort((a, b) => a.ms - b.ms);
    ordered = [...timed.map(({ suite }) => suite), 'TLS_AES_256_GCM_SHA384'].join(':');
  }
  return ordered;
}

/** Best of several runs over one TLS record, well under a millisecond in all. */
function encryptionMs(name: keyof typeof suites, data: Buffer): number {
  let best = Infinity;
  for (let run = 0; run < 8; run += 1) {
    const cipher =
      name === 'aes-128-gcm'
        ? createCipheriv(name, Buffer.alloc(16), Buffer.alloc(12))
        : createCipheriv(name, Buffer.alloc(32), Buffer.alloc(12), { authTagLength: 16 });
    const startedAt = performance.now();
    cipher.update(data);
    cipher.final();
    best = Math.min(best, performance.now() - startedAt);
  }
  return best;
}
