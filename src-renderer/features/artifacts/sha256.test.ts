import { expect, it } from 'vitest';
import { createSha256 } from './sha256.ts';

const bytesOf = (length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, index) => (index * 7 + 3) & 255);
const expected = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> => {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

it('digests every length around a block as the system does', async () => {
  for (let length = 0; length <= 200; length++) {
    const hash = createSha256();
    hash.update(bytesOf(length));
    expect(hash.hex()).toBe(await expected(bytesOf(length)));
  }
});

it('does not mind how the bytes are cut', async () => {
  const bytes = bytesOf(10_000);
  for (const step of [1, 13, 63, 64, 65, 4_096]) {
    const hash = createSha256();
    for (let at = 0; at < bytes.length; at += step) hash.update(bytes.subarray(at, at + step));
    expect(hash.hex()).toBe(await expected(bytes));
  }
});
