import { createHash } from 'node:crypto';
import type { NodeId } from '#shared/lib/ids.ts';
import { labelled } from './transcript.ts';

/**
 * What a worker sends before it knows the controller's nonce: it can open to one nonce only, and only under the
 * worker's own key. So neither end, nor anybody between them, can choose the digits by choosing its nonce last.
 * @param nonce 64 hex digits, random
 * @returns 64 hex digits: SHA-256 over a label, the key and the nonce
 */
export function commitmentOf(nonce: string, workerId: NodeId): string {
  return createHash('sha256')
    .update('covey join commitment\0', 'utf8')
    .update(labelled('worker key', workerId))
    .update(labelled('worker nonce', nonce))
    .digest('hex');
}
