import { Buffer } from 'node:buffer';
import type { NodeId } from '#shared/lib/ids.ts';

/** What one join conversation is made of, as either end sees it. All values are 64 hex digits. */
export interface PairingTranscript {
  /** Exported from the TLS connection; differs at the two ends when somebody stands between them. */
  readonly binding: string;
  readonly workerId: NodeId;
  readonly controllerId: NodeId;
  readonly workerNonce: string;
  readonly controllerNonce: string;
}

/**
 * The transcript as bytes: the fields in a fixed order, each behind its role's label and of fixed length, so that
 * no two transcripts have the same bytes.
 */
export function transcriptBytes(transcript: PairingTranscript): Buffer {
  return Buffer.concat([
    labelled('connection', transcript.binding),
    labelled('worker key', transcript.workerId),
    labelled('controller key', transcript.controllerId),
    labelled('worker nonce', transcript.workerNonce),
    labelled('controller nonce', transcript.controllerNonce),
  ]);
}

/** `label`, a zero byte, and the 32 bytes. Throws `RangeError` when the value is not 64 hex digits. */
export function labelled(label: string, hex: string): Buffer {
  if (!/^[0-9a-f]{64}$/.test(hex)) throw new RangeError(`the ${label} must be 64 hexadecimal digits`);
  return Buffer.concat([Buffer.from(`${label}\0`, 'utf8'), Buffer.from(hex, 'hex')]);
}
