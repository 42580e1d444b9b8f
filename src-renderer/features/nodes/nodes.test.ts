import { describe, expect, it } from 'vitest';
import { nodeViewSchema, type NodeView } from '#shared/api/schema.ts';
import type { NodeLive } from '#shared/api/dashboard.ts';
import type { PairCheck } from '#shared/api/self.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { nodeFigures, systemText } from './figures.ts';
import { linkGrid, quality, weakness } from './link-grid.ts';
import { portOf, reachOf } from './reach.ts';

const [anna, ben, carl] = ['a', 'b', 'c'].map((digit) => digit.repeat(64) as NodeId) as [
  NodeId,
  NodeId,
  NodeId,
];
const device = {
  id: 'CUDA0',
  kind: 'gpu',
  backend: 'CUDA',
  name: 'Card',
  totalBytes: 100,
  freeBytes: 90,
  pciId: null,
};
const node: NodeView = nodeViewSchema.parse({
  id: anna,
  name: 'anna',
  status: 'ready',
  eligible: true,
  ineligibleReasons: [],
  connected: true,
  lastSeenAt: 1,
  joinedAt: 1,
  version: '0.1.0',
  engineBuildId: 'b',
  address: '10.0.0.1',
  hardware: {
    os: { platform: 'darwin', arch: 'arm64', release: '1', hostname: 'anna' },
    cpu: { known: false, reason: 'none' },
    ram: { known: true, value: { totalBytes: 1_000 } },
    disk: { known: false, reason: 'none' },
    gpus: { known: false, reason: 'none' },
    devices: { known: true, value: [{ ...device, id: 'CPU', kind: 'cpu' }, device] },
  },
  telemetry: null,
  drain: null,
  pausedAt: null,
  lend: null,
  compute: null,
  deployments: [],
  engines: [],
});
const live: NodeLive = {
  id: anna,
  status: 'ready',
  cpuLoad: 0.25,
  ramAvailableBytes: 400,
  receiveBytesPerS: 5,
  sendBytesPerS: null,
  devices: [{ id: 'CUDA0', freeBytes: 30, load: 0.5, celsius: 60 }],
  celsius: 50,
  lend: null,
};

describe('figures of a machine', () => {
  it('are those of now', () => {
    expect(nodeFigures(node, live)).toMatchObject({
      cpuLoad: 0.25,
      ramTotalBytes: 1_000,
      ramUsedBytes: 600,
      receiveBytesPerS: 5,
      celsius: 50,
      devices: [{ id: 'CUDA0', totalBytes: 100, usedBytes: 70, load: 0.5, celsius: 60 }],
    });
  });

  it('are unknown while nothing was heard, and when it is gone', () => {
    expect(nodeFigures(node, null)).toMatchObject({
      cpuLoad: null,
      ramTotalBytes: 1_000,
      ramUsedBytes: null,
    });
    const gone = nodeFigures({ ...node, connected: false }, live);
    expect(gone).toMatchObject({ cpuLoad: null, ramUsedBytes: null, receiveBytesPerS: null });
    expect(gone.devices).toMatchObject([{ load: null, usedBytes: 10 }]);
  });

  it('name the system as people do', () => {
    expect(systemText(node)).toBe('macOS · arm64');
    expect(systemText({ ...node, hardware: null })).toBeNull();
  });
});

const link = (from: NodeId, to: NodeId, change: Partial<PairCheck> = {}): PairCheck => ({
  from,
  fromName: 'x',
  to,
  toName: 'y',
  path: 'direct',
  rttMs: 0.4,
  bytesPerS: 1e8,
  measuredAt: 1,
  attempts: [],
  error: null,
  ...change,
});

describe('links', () => {
  it('are a table by name, also of machines that are gone', () => {
    const grid = linkGrid(
      [link(anna, ben), link(carl, anna)],
      [
        { id: ben, name: 'ben' },
        { id: anna, name: 'anna' },
      ],
    );
    expect(grid.nodes.map(({ name }) => name)).toEqual(['anna', 'ben', 'x']);
    expect(grid.cells.map((row) => row.map((cell) => cell !== null))).toEqual([
      [false, true, false],
      [false, false, false],
      [true, false, false],
    ]);
  });

  it('are judged by their round trip and path', () => {
    expect(quality(link(anna, ben))).toBe('good');
    expect(quality(link(anna, ben, { rttMs: 8 }))).toBe('fair');
    expect(quality(link(anna, ben, { path: 'relay' }))).toBe('fair');
    expect(quality(link(anna, ben, { rttMs: 40 }))).toBe('poor');
    expect(weakness(link(anna, ben))).toBeNull();
    expect(weakness(link(anna, ben, { rttMs: 8 }))?.word).toBe('fairly slow');
    expect(weakness(link(anna, ben, { rttMs: 40 }))?.word).toBe('slow');
    expect(weakness(link(anna, ben, { path: 'relay' }))?.why).toMatch(/controller/);
    expect(weakness(link(anna, ben, { rttMs: null }))?.word).toBe('speed unknown');
    expect(quality(link(anna, ben, { path: null, rttMs: null }))).toBe('none');
    expect(quality(link(anna, ben, { error: { code: 'stage_unreachable', message: 'no' } }))).toBe('none');
  });
});

it('knows from where a controller is reached', () => {
  const reached = (address: string | null): string => reachOf(address);
  expect(['127.0.0.1:40123', '127.1.2.3:1', '::1:7879', '[::1]:7879', 'localhost:1'].map(reached)).toEqual(
    Array(5).fill('computer'),
  );
  expect(['0.0.0.0:7879', ':::7879', '[::]:7879'].map(reached)).toEqual(Array(3).fill('network'));
  expect(['192.168.1.10:7879', 'fd00::1:7879', '12.7.0.1:1'].map(reached)).toEqual(Array(3).fill('address'));
  expect(reached(null)).toBe('closed');
  expect(portOf(':::7879')).toBe('7879');
});
