import { randomBytes } from 'node:crypto';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { seal, unseal } from './sealed-stream.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-seal-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const chunk = 1024 * 1024;

test.each([0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk])(
  '%i bytes come back in pieces of any size, and no byte more',
  async (size) => {
    const plain = randomBytes(size);
    const file = await open(join(directory, 'sealed'), 'w+');
    try {
      await seal(file, 'a passphrase', [
        plain.subarray(0, 7),
        plain.subarray(7, chunk),
        plain.subarray(chunk),
      ]);
      const { size: bytes } = await file.stat();
      const opened = await unseal(file, bytes, 'a passphrase');
      const first = Math.min(3, size);
      const got: Buffer[] = [];
      for await (const piece of opened.read(first)) got.push(piece);
      for await (const piece of opened.read(size - first)) got.push(piece);
      expect(Buffer.concat(got).equals(plain)).toBe(true);
      await opened.end();
      await expect(opened.read(1).next()).rejects.toMatchObject({ code: 'backup_invalid' });
    } finally {
      await file.close();
    }
  },
);

test('what was not read is noticed', async () => {
  const file = await open(join(directory, 'sealed'), 'w+');
  try {
    await seal(file, 'a passphrase', [Buffer.from('four')]);
    const { size } = await file.stat();
    const opened = await unseal(file, size, 'a passphrase');
    for await (const piece of opened.read(3)) expect(piece.toString()).toBe('fou');
    await expect(opened.end()).rejects.toMatchObject({ code: 'backup_invalid' });
  } finally {
    await file.close();
  }
});
