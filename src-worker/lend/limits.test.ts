import { describe, expect, test } from 'vitest';
import type { Telemetry } from '#shared/domain/node.ts';
import { llama, rpc } from '../agent/fixtures.ts';
import { rulesOf } from './fixtures.ts';
import { usedBy, withinLimits } from './limits.ts';

const gb = 1e9;
const device = (id: string, freeBytes: number): Telemetry['deviceFree'][number] => ({
  id,
  freeBytes,
  load: null,
  celsius: null,
});
const telemetry: Telemetry = {
  cpuLoad: 0,
  ramTotalBytes: 16 * gb,
  ramAvailableBytes: 10 * gb,
  diskFreeBytes: null,
  ownRssBytes: 0,
  deviceFree: [device('CPU', 10 * gb), device('CUDA0', 8 * gb), device('CUDA1', 8 * gb)],
  receiveBytesPerS: null,
  sendBytesPerS: null,
  celsius: null,
};
const nothing = usedBy([]);
const free = (within: Telemetry): unknown =>
  Object.fromEntries(within.deviceFree.map(({ id, freeBytes }) => [id, freeBytes / gb]));

describe('what the covey may count on', () => {
  test('is all that is free where nothing is limited', () => {
    expect(withinLimits(telemetry, rulesOf().limits, nothing)).toEqual(telemetry);
  });

  test('is at most what is left of the limits', () => {
    const { limits } = rulesOf({ limits: { ramBytes: 4 * gb, vramBytes: { CUDA0: 6 * gb, CUDA1: 0 } } });
    const used = { ramBytes: 3 * gb, deviceBytes: new Map([['CUDA0', gb]]) };
    const within = withinLimits(telemetry, limits, used);
    expect(within.ramAvailableBytes).toBe(gb);
    expect(within.ramTotalBytes).toBe(16 * gb);
    expect(free(within)).toEqual({ CPU: 1, CUDA0: 5, CUDA1: 0 });
  });

  test('is never less than nothing, nor more than is free', () => {
    const { limits } = rulesOf({ limits: { ramBytes: 64 * gb, vramBytes: { CUDA0: gb } } });
    const within = withinLimits(telemetry, limits, {
      ramBytes: 0,
      deviceBytes: new Map([['CUDA0', 2 * gb]]),
    });
    expect(free(within)).toEqual({ CPU: 10, CUDA0: 0, CUDA1: 8 });
  });
});

describe('what engines take', () => {
  test('is their memory, and on cards the weights that they hold', () => {
    const leader = {
      ...llama({ modelBytes: 10 * gb, stages: 1 }),
      stageBytes: [4 * gb],
      localDevices: ['CUDA0', 'CUDA1'],
      tensorSplit: [2, 1, 3],
    };
    const used = usedBy([
      { assignment: leader, rssBytes: gb, deviceBytes: null },
      {
        assignment: rpc({ device: 'CUDA1', weightBytes: gb }),
        rssBytes: null,
        deviceBytes: { CUDA1: 1.5 * gb },
      },
      { assignment: rpc({ device: 'CPU', weightBytes: 5 * gb }), rssBytes: 2 * gb, deviceBytes: null },
    ]);
    expect(used.ramBytes).toBe(3 * gb);
    expect(Object.fromEntries(used.deviceBytes)).toEqual({ CUDA0: 4 * gb, CUDA1: 3.5 * gb });
  });
});
