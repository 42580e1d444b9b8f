import { Buffer } from 'node:buffer';
import { createHmac, hkdfSync } from 'node:crypto';
import { clusterSecretSchema } from '#shared/domain/cluster-secret.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { transcriptBytes, type PairingTranscript } from './transcript.ts';

const secretBytes = 16;

/** One key per purpose, so that nothing that is announced helps with a proof. */
type Purpose = 'announcement' | 'controller proof' | 'worker proof';

/** @param random 16 random bytes */
export function newClusterSecret(random: Buffer): string {
  if (random.length !== secretBytes) throw new RangeError(`a cluster secret is made of ${secretBytes} bytes`);
  return `covey-secret.${random.toString('hex')}`;
}

/**
 * What a holder of the secret announces in public: a hint by which other holders find it. It proves nothing, since
 * it can be recorded and repeated; and the secret is random, so it cannot be guessed from it.
 * @param nonce the announcement's own, any text
 * @returns 32 hex digits
 */
export function announcementMark(secret: string, nonce: string, nodeId: NodeId): string {
  return createHmac('sha256', derivedKey(secret, 'announcement'))
    .update(`${nodeId}\0${nonce}`, 'utf8')
    .digest('hex')
    .slice(0, 32);
}

/**
 * Proof to the other end of one connection that its maker holds the secret. Each role has a key of its own: a proof
 * sent back to its maker, or on over another connection, is worth nothing.
 * @param role the maker's
 * @returns 64 hex digits
 */
export function proofMac(
  secret: string,
  role: 'controller' | 'worker',
  transcript: PairingTranscript,
): string {
  return createHmac('sha256', derivedKey(secret, `${role} proof`))
    .update(transcriptBytes(transcript))
    .digest('hex');
}

/** HKDF-SHA256 (RFC 5869) with the purpose as info. Throws when the text is no cluster secret. */
function derivedKey(secret: string, purpose: Purpose): Buffer {
  const material = Buffer.from(clusterSecretSchema.parse(secret).slice(-2 * secretBytes), 'hex');
  return Buffer.from(hkdfSync('sha256', material, Buffer.alloc(0), `covey cluster secret: ${purpose}`, 32));
}
