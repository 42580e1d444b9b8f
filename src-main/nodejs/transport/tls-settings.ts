import { createCipheriv } from 'node:crypto';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';

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
  return createSecureContext(tlsSettings(identity));
}

const suites = {
  'aes-128-gcm': 'TLS_AES_128_GCM_SHA256',
  'chacha20-poly1305': 'TLS_CHACHA20_POLY1305_SHA256',
} as const;

let ordered: string | null = null;

/** The suite that this CPU computes fastest comes first. Without AES instructions that is ChaCha20. */
function preferredSuites(): string {
  ordered ??= (Object.keys(suites) as Array<keyof typeof suites>)
    .map((name) => ({ name, ms: encryptionMs(name) }))
    .sort((a, b) => a.ms - b.ms)
    .map(({ name }) => suites[name])
    .concat('TLS_AES_256_GCM_SHA384' as never)
    .join(':');
  return ordered;
}

/** Best of three runs over 256 KiB, about a millisecond in all. */
function encryptionMs(name: keyof typeof suites): number {
  const data = Buffer.alloc(256 * 1024);
  let best = Infinity;
  for (let run = 0; run < 3; run += 1) {
    const key = Buffer.alloc(name === 'aes-128-gcm' ? 16 : 32);
    const cipher =
      name === 'aes-128-gcm'
        ? createCipheriv('aes-128-gcm', key, Buffer.alloc(12))
        : createCipheriv('chacha20-poly1305', key, Buffer.alloc(12), { authTagLength: 16 });
    const startedAt = performance.now();
    cipher.update(data);
    cipher.final();
    best = Math.min(best, performance.now() - startedAt);
  }
  return best;
}
