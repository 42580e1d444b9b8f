import { Buffer } from 'node:buffer';
import { hkdfSync } from 'node:crypto';
import { transcriptBytes, type PairingTranscript } from './transcript.ts';

const digitCount = 6;

/**
 * The number that people compare: six digits from both keys, both nonces and the TLS connection. HKDF-SHA256
 * gives 8 bytes, taken as a number modulo 10^6; the bias of that is below 10^-13.
 */
export function pairingDigits(transcript: PairingTranscript): string {
  const bytes = hkdfSync('sha256', transcriptBytes(transcript), Buffer.alloc(0), 'covey pairing digits', 8);
  const value = Buffer.from(bytes).readBigUInt64BE() % 10n ** BigInt(digitCount);
  return value.toString().padStart(digitCount, '0');
}
