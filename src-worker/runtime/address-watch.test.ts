import type { NetworkInterfaceInfo } from 'node:os';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { watchOwnAddresses } from './address-watch.ts';

let interfaces: Record<string, string[]>;
let told: string[][];
let stop: () => void;
const read = () =>
  Object.fromEntries(
    Object.entries(interfaces).map(([name, addresses]) => [
      name,
      addresses.map((address) => ({ address }) as NetworkInterfaceInfo),
    ]),
  );
beforeEach(() => {
  vi.useFakeTimers();
  interfaces = { lo: ['127.0.0.1'], eth0: ['192.0.2.1', 'fe80::1'] };
  told = [];
  stop = watchOwnAddresses((lost) => told.push([...lost]), read);
});
afterEach(() => {
  stop();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

test('tells once what was lost, and that something was added', () => {
  vi.advanceTimersByTime(4_000);
  expect(told).toEqual([]);
  interfaces['eth0'] = ['192.0.2.2'];
  vi.advanceTimersByTime(4_000);
  expect(told).toEqual([['192.0.2.1']]);
  interfaces['wlan0'] = ['198.51.100.1'];
  vi.advanceTimersByTime(4_000);
  expect(told).toEqual([['192.0.2.1'], []]);
});

test('does not care for the adapters of containers that come and go', () => {
  interfaces['veth1'] = ['fe80::2'];
  vi.advanceTimersByTime(2_000);
  delete interfaces['veth1'];
  vi.advanceTimersByTime(2_000);
  expect(told).toEqual([]);
});
