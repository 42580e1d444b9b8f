import { expect, it } from 'vitest';
import { createTraffic } from './traffic.ts';

it('counts bytes, and keeps the best second of either direction', () => {
  let now = 0;
  const traffic = createTraffic(() => now);
  expect(traffic).toMatchObject({ sentBytes: 0, receivedBytes: 0, idleMs: null, lastSender: null });
  expect(traffic.bytesPerS).toBeNull();

  traffic.add('near', 400);
  now = 500;
  traffic.add('far', 300);
  traffic.add('near', 200);
  // Its second is not over.
  expect(traffic.bytesPerS).toBeNull();
  now = 1_000;
  expect(traffic.bytesPerS).toBe(600);
  // A pause is no part of a second with traffic.
  now = 60_000;
  traffic.add('far', 1_000);
  now = 60_999;
  traffic.add('far', 500);
  now = 61_000;
  traffic.add('far', 10);
  expect(traffic.bytesPerS).toBe(1_500);
  now = 70_000;
  expect(traffic.bytesPerS).toBe(1_500);
  expect(traffic).toMatchObject({
    sentBytes: 600,
    receivedBytes: 1_810,
    idleMs: 9_000,
    lastSender: 'stage',
  });
});
