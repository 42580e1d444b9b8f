import { describe, expect, it } from 'vitest';
import { hardwareSchema, telemetrySchema, type Device } from '#shared/domain/node.ts';
import { tmpdir } from 'node:os';
import { countPhysical, readCores } from './cores.ts';
import { parseDeviceList, withPciIds } from './devices.ts';
import { probeHardware } from './hardware.ts';
import { cpuLoad, createTelemetrySampler, parseProcStat } from './telemetry.ts';

describe('device list', () => {
  it('reads names with parentheses and colons, sizes, and leaves out what holds no layers', () => {
    const devices = parseDeviceList(
      [
        'ggml_vulkan: Found 1 Vulkan devices:',
        'Available devices:',
        '  CUDA0: NVIDIA GeForce RTX 3090 (24575 MiB, 23592 MiB free)',
        '  Vulkan1: AMD Radeon Graphics (RADV: RENOIR) (8000 MiB, 7000 MiB free)',
        '  BLAS: OpenBLAS (0 MiB, 0 MiB free)',
        '  RPC0: 127.0.0.1:5000 (10 MiB, 10 MiB free)',
      ].join('\n'),
    );
    expect(devices).toMatchObject([
      { id: 'CUDA0', backend: 'CUDA', name: 'NVIDIA GeForce RTX 3090', totalBytes: 24575 * 1024 ** 2 },
      {
        id: 'Vulkan1',
        backend: 'Vulkan',
        name: 'AMD Radeon Graphics (RADV: RENOIR)',
        freeBytes: 7000 * 1024 ** 2,
      },
    ]);
    expect(parseDeviceList('Available devices:\n  (none)\n')).toEqual([]);
  });

  it('gives a card seen by two backends one PCI id, and two equal cards two', () => {
    const device = (id: string, backend: string, name: string): Device => ({
      id,
      backend,
      name,
      kind: 'gpu',
      totalBytes: 1,
      freeBytes: 1,
      pciId: null,
    });
    const result = withPciIds(
      [
        device('CUDA0', 'CUDA', 'NVIDIA GeForce RTX 3090'),
        device('CUDA1', 'CUDA', 'NVIDIA GeForce RTX 3090'),
        device('Vulkan0', 'Vulkan', 'NVIDIA GeForce RTX 3090'),
        device('Vulkan1', 'Vulkan', 'Some other card'),
      ],
      [
        { model: 'GeForce RTX 3090', pciId: '0000:01:00.0' },
        { model: 'GeForce RTX 3090', pciId: '0000:02:00.0' },
        { model: '', pciId: '0000:03:00.0' },
      ],
    );
    expect(result.map((entry) => entry.pciId)).toEqual([
      '0000:01:00.0',
      '0000:02:00.0',
      '0000:01:00.0',
      null,
    ]);
  });
});

describe('cores and load', () => {
  it('counts twins once and cores of two packages apart', () => {
    const block = (processor: number, physical: number, core: number) =>
      `processor\t: ${processor}\nmodel name\t: X\nphysical id\t: ${physical}\ncore id\t\t: ${core}\n`;
    expect(countPhysical([block(0, 0, 0), block(1, 0, 0), block(2, 0, 1), block(3, 1, 0)].join('\n'))).toBe(
      3,
    );
    expect(countPhysical('processor : 0\nBogoMIPS : 50\n')).toBeNull();
    expect(readCores().physical).toBeGreaterThanOrEqual(1);
  });

  it('computes the load between two readings of /proc/stat', () => {
    const before = parseProcStat('cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 1 1 1\n');
    const after = parseProcStat('cpu  160 0 70 900 60 0 0 10 9 9\n');
    expect(before).toEqual({ busy: 150, total: 1000 });
    expect(cpuLoad(before, after)).toBeCloseTo(90 / 200);
    expect(cpuLoad(before, before)).toBeNull();
    expect(cpuLoad(null, after)).toBeNull();
  });
});

it('a probe without an engine says so and still gives a valid picture', async () => {
  const hardware = await probeHardware({
    dataDirectory: tmpdir(),
    engine: { directory: null, reason: 'no engine directory here' },
  });
  expect(hardwareSchema.parse(hardware)).toEqual(hardware);
  expect(hardware.devices).toEqual({ known: false, reason: 'no engine directory here' });
  expect(hardware.disk.known).toBe(true);
});

it('a probe of things that are not there gives reasons, not exceptions', async () => {
  const hardware = await probeHardware({
    dataDirectory: '/no/such/directory',
    engine: { directory: '/no/such/engine' },
  });
  expect(hardwareSchema.parse(hardware)).toEqual(hardware);
  expect(hardware.disk).toMatchObject({ known: false });
  expect(hardware.devices).toMatchObject({ known: false });
});

it('telemetry fits the schema, follows the devices, and counts both processes', () => {
  const sampler = createTelemetrySampler({
    dataDirectory: tmpdir(),
    transportRssBytes: () => 5e9,
    now: () => 0,
  });
  sampler.setDevices([
    { id: 'CPU', kind: 'cpu', backend: 'CPU', name: '', totalBytes: 9, freeBytes: 1, pciId: null },
    { id: 'CUDA0', kind: 'gpu', backend: 'CUDA', name: '', totalBytes: 9, freeBytes: 3, pciId: null },
  ]);
  const sample = sampler.sample();
  expect(telemetrySchema.parse(sample)).toEqual(sample);
  expect(sample.ownRssBytes).toBeGreaterThan(5e9);
  expect(sample.deviceFree).toEqual([
    { id: 'CPU', freeBytes: sample.ramAvailableBytes, load: sample.cpuLoad, celsius: sample.celsius },
    { id: 'CUDA0', freeBytes: 3, load: null, celsius: null },
  ]);
});
