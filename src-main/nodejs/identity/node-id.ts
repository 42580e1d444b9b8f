import { createHash, X509Certificate } from 'node:crypto';
import type { NodeId } from '#shared/lib/ids.ts';

/**
 * The name of the machine that owns a key: lower-case hex SHA-256 of its SubjectPublicKeyInfo in DER.
 * @param certificate DER bytes, PEM text, or the parsed certificate of a TLS peer
 * Throws when the bytes are no certificate.
 */
export function nodeIdOfCertificate(certificate: Uint8Array | string | X509Certificate): NodeId {
  const parsed = certificate instanceof X509Certificate ? certificate : new X509Certificate(certificate);
  const spki = parsed.publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest('hex') as NodeId;
}
