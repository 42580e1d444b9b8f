import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { announcementMark, newClusterSecret, proofMac } from './cluster-secret.ts';
import { commitmentOf } from './commitment.ts';
import { pairingDigits } from './digits.ts';
import { equalSecrets } from './equal.ts';
import type { PairingTranscript } from './transcript.ts';

const hex32 = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const nodeIds = hex32.map((hex) => hex as NodeId);
const transcripts: fc.Arbitrary<PairingTranscript> = fc.record({
  binding: hex32,
  workerId: nodeIds,
  controllerId: nodeIds,
  workerNonce: hex32,
  controllerNonce: hex32,
});
const fields = fc.constantFrom<keyof PairingTranscript>(
  'binding',
  'workerId',
  'controllerId',
  'workerNonce',
  'controllerNonce',
);
const secrets = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) => newClusterSecret(Buffer.from(bytes)));
const fixed = (digit: string): NodeId => digit.repeat(64) as NodeId;

describe('pairing digits', () => {
  test('are six digits and equal for equal transcripts', () => {
    fc.assert(
      fc.property(transcripts, (transcript) => {
        const digits = pairingDigits(transcript);
        expect(digits).toMatch(/^\d{6}$/);
        expect(pairingDigits({ ...transcript })).toBe(digits);
      }),
    );
  });

  test('depend on each input: over many transcripts one changed field hardly ever gives the same digits', () => {
    const same = { count: 0 };
    fc.assert(
      fc.property(transcripts, fields, hex32, (transcript, field, value) => {
        fc.pre(transcript[field] !== value);
        if (pairingDigits({ ...transcript, [field]: value }) === pairingDigits(transcript)) same.count += 1;
      }),
      { numRuns: 2_000 },
    );
    // Expected 0.002; three of them would be a chance of 1 in 10^9.
    expect(same.count).toBeLessThan(3);
  });

  test('the ends are not interchangeable', () => {
    const one = {
      binding: fixed('0'),
      workerId: fixed('1'),
      controllerId: fixed('2'),
      workerNonce: fixed('3'),
      controllerNonce: fixed('4'),
    };
    const swapped = { ...one, workerId: fixed('2'), controllerId: fixed('1') };
    const nonces = { ...one, workerNonce: fixed('4'), controllerNonce: fixed('3') };
    expect(new Set([one, swapped, nonces].map(pairingDigits)).size).toBe(3);
  });

  test('golden: another implementation must come to the same', () => {
    expect(
      pairingDigits({
        binding: fixed('0'),
        workerId: fixed('1'),
        controllerId: fixed('2'),
        workerNonce: fixed('3'),
        controllerNonce: fixed('4'),
      }),
    ).toBe('104306');
  });

  test('spread evenly over the numbers', () => {
    const buckets = new Array<number>(10).fill(0);
    for (let index = 0; index < 5_000; index += 1) {
      const workerNonce = createHash('sha256').update(String(index)).digest('hex');
      const digits = pairingDigits({
        binding: fixed('0'),
        workerId: fixed('1'),
        controllerId: fixed('2'),
        workerNonce,
        controllerNonce: fixed('4'),
      });
      buckets[Number(digits[0])] = (buckets[Number(digits[0])] ?? 0) + 1;
    }
    // 500 each; 120 off is more than five standard deviations.
    for (const count of buckets) expect(Math.abs(count - 500)).toBeLessThan(120);
  });

  test.each(['', 'short', 'G'.repeat(64), 'A'.repeat(64), '0'.repeat(66)])('refuse %j as a value', (bad) => {
    const transcript = {
      binding: bad,
      workerId: fixed('1'),
      controllerId: fixed('2'),
      workerNonce: fixed('3'),
      controllerNonce: fixed('4'),
    };
    expect(() => pairingDigits(transcript)).toThrow(/connection must be 64/);
  });
});

test('a commitment opens to one nonce of one key', () => {
  fc.assert(
    fc.property(hex32, hex32, nodeIds, nodeIds, (nonce, otherNonce, id, otherId) => {
      fc.pre(nonce !== otherNonce && id !== otherId);
      const commitment = commitmentOf(nonce, id);
      expect(commitment).toMatch(/^[0-9a-f]{64}$/);
      expect(commitmentOf(nonce, id)).toBe(commitment);
      expect(commitmentOf(otherNonce, id)).not.toBe(commitment);
      expect(commitmentOf(nonce, otherId)).not.toBe(commitment);
    }),
  );
});

describe('cluster secret', () => {
  test('the same secret gives the same marks and proofs, another one others', () => {
    fc.assert(
      fc.property(secrets, secrets, transcripts, fc.string(), (secret, other, transcript, nonce) => {
        fc.pre(secret !== other);
        expect(announcementMark(secret, nonce, transcript.workerId)).toMatch(/^[0-9a-f]{32}$/);
        expect(announcementMark(other, nonce, transcript.workerId)).not.toBe(
          announcementMark(secret, nonce, transcript.workerId),
        );
        expect(proofMac(secret, 'worker', transcript)).toBe(proofMac(secret, 'worker', { ...transcript }));
        expect(proofMac(other, 'worker', transcript)).not.toBe(proofMac(secret, 'worker', transcript));
        expect(proofMac(secret, 'controller', transcript)).not.toBe(proofMac(secret, 'worker', transcript));
      }),
    );
  });

  test('a proof is bound to every part of its conversation', () => {
    fc.assert(
      fc.property(secrets, transcripts, fields, hex32, (secret, transcript, field, value) => {
        fc.pre(transcript[field] !== value);
        expect(proofMac(secret, 'controller', { ...transcript, [field]: value })).not.toBe(
          proofMac(secret, 'controller', transcript),
        );
      }),
    );
  });

  test('a mark names the key and the nonce that it is for', () => {
    const secret = newClusterSecret(Buffer.alloc(16, 7));
    const mark = announcementMark(secret, 'n', fixed('a'));
    expect(announcementMark(secret, 'm', fixed('a'))).not.toBe(mark);
    expect(announcementMark(secret, 'n', fixed('b'))).not.toBe(mark);
  });

  test('is made of 16 bytes and of nothing else', () => {
    expect(newClusterSecret(Buffer.alloc(16, 0xab))).toBe(`covey-secret.${'ab'.repeat(16)}`);
    expect(() => newClusterSecret(Buffer.alloc(15))).toThrow(RangeError);
    expect(() => announcementMark('covey-secret.short', 'n', fixed('a'))).toThrow();
  });
});

test('secrets are compared whole', () => {
  expect(equalSecrets('123456', '123456')).toBe(true);
  expect(equalSecrets('123456', '123457')).toBe(false);
  expect(equalSecrets('123456', '12345')).toBe(false);
  expect(equalSecrets('', '')).toBe(true);
});
