import { describe, expect, test } from 'vitest';
import type { Telemetry } from '#shared/domain/node.ts';
import { nodeHistorySchema } from '#shared/api/dashboard.ts';
import { nodeId, telemetry } from '../state/fixtures.ts';
import { createNodeHistories, historyMs } from './node-history.ts';

const a = nodeId('a');
const full: Telemetry = {
  ...telemetry,
  cpuLoad: 0.25,
  receiveBytesPerS: 10,
  sendBytesPerS: 0,
  celsius: 51.5,
  deviceFree: [
    { id: 'CPU', freeBytes: 7, load: 0.25, celsius: null },
    { id: 'CUDA0', freeBytes: 9, load: null, celsius: 60 },
  ],
};

describe('history of a machine', () => {
  test('figures come back as they were, unknown ones too', () => {
    const histories = createNodeHistories();
    histories.record(a, 1_000, full);
    histories.record(a, 3_000, { ...full, cpuLoad: null, receiveBytesPerS: null, celsius: null });
    const history = histories.read(a, 3_000);
    expect(nodeHistorySchema.parse(history)).toEqual(history);
    const { ramAvailableBytes } = full;
    expect(history.samples).toEqual([
      {
        at: 1_000,
        cpuLoad: 0.25,
        ramAvailableBytes,
        receiveBytesPerS: 10,
        sendBytesPerS: 0,
        celsius: 51.5,
        devices: full.deviceFree,
      },
      {
        at: 3_000,
        cpuLoad: null,
        ramAvailableBytes,
        receiveBytesPerS: null,
        sendBytesPerS: 0,
        celsius: null,
        devices: full.deviceFree,
      },
    ]);
    expect(histories.read(nodeId('b'), 0)).toEqual({ samples: [] });
    histories.forget(a);
    expect(histories.read(a, 3_000)).toEqual({ samples: [] });
  });

  test('beats out of turn add nothing; one a little early does', () => {
    const histories = createNodeHistories();
    for (const at of [0, 100, 1_400, 1_950, 3_990]) histories.record(a, at, full);
    expect(histories.read(a, 4_000).samples.map((sample) => sample.at)).toEqual([0, 1_950, 3_990]);
  });

  test('ten minutes, oldest first, whatever was recorded before', () => {
    const histories = createNodeHistories();
    for (let at = 0; at <= 1_000_000; at += 2_000) histories.record(a, at, { ...full, cpuLoad: at / 1e6 });
    const { samples } = histories.read(a, 1_000_000);
    expect(samples).toHaveLength(300);
    expect(samples[0]?.at).toBe(402_000);
    expect(samples.at(-1)).toMatchObject({ at: 1_000_000, cpuLoad: 1 });
    expect(histories.read(a, 1_000_000 + historyMs).samples.map((sample) => sample.at)).toEqual([1_000_000]);
    expect(histories.read(a, 2_000_000).samples).toEqual([]);
  });

  test('other devices begin anew; a clock that was set back does not stop it', () => {
    const histories = createNodeHistories();
    histories.record(a, 10_000, full);
    histories.record(a, 5_000, full);
    expect(histories.read(a, 5_000).samples.map((sample) => sample.at)).toEqual([5_000]);
    histories.record(a, 7_000, { ...full, deviceFree: [] });
    expect(histories.read(a, 7_000).samples).toMatchObject([{ at: 7_000, devices: [] }]);
  });
});
