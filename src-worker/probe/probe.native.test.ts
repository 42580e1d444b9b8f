import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { hardwareSchema } from '#shared/domain/node.ts';
import { testEngine } from '../engines/test-engine.ts';
import { probeHardware } from './hardware.ts';

it('the probe of this machine fits the schema and lists the CPU first among the devices of the engine', async () => {
  const hardware = await probeHardware({ dataDirectory: tmpdir(), engine: await testEngine() });
  expect(hardwareSchema.parse(hardware)).toEqual(hardware);
  const { devices, cpu } = hardware;
  expect(devices.known && devices.value[0]).toMatchObject({ id: 'CPU', kind: 'cpu' });
  expect(cpu.known && cpu.value.physicalCores <= cpu.value.logicalCores).toBe(true);
});
