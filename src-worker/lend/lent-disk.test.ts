import { expect, test } from 'vitest';
import { createLentDisk } from './lent-disk.ts';

test('what one holds is not left for the other, who may ask for it back', async () => {
  let limit: number | null = 100;
  const disk = createLentDisk(() => limit);
  expect(disk.shareOf('models')).toBe(100);
  let artifacts = 70;
  const asked: number[] = [];
  disk.use('artifacts', {
    bytes: () => artifacts,
    async giveUp(bytes) {
      asked.push(bytes);
      artifacts -= bytes;
    },
  });
  disk.use('models', { bytes: () => 20, giveUp: () => Promise.reject(new Error('they stay')) });
  expect(disk.shareOf('models')).toBe(30);
  expect(disk.shareOf('artifacts')).toBe(80);
  await disk.askOthers('models', 25);
  expect([asked, disk.shareOf('models')]).toEqual([[25], 55]);
  limit = 10;
  expect(disk.shareOf('artifacts')).toBe(-10);
  limit = null;
  expect(disk.shareOf('artifacts')).toBeNull();
});
