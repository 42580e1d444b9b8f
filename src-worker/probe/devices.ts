import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Device, Unknownable } from '#shared/domain/node.ts';
import { engineEnvironment } from '../engines/host/environment.ts';

const listMs = 20_000;
const mib = 1024 * 1024;
/** Backends that help the CPU instead of holding layers. */
const notForLayers = new Set(['CPU', 'BLAS', 'ACCEL', 'RPC']);

export interface GpuAddress {
  readonly model: string;
  /** `0000:01:00.0`, null when the system does not tell. */
  readonly pciId: string | null;
}

/**
 * What the engine itself can compute on, from `llama-server --list-devices`, which leaves out the CPU: that is
 * always there and comes first.
 */
export async function probeDevices(
  engineDirectory: string,
  cpu: { readonly model: string; readonly totalBytes: number; readonly freeBytes: number },
  gpus: readonly GpuAddress[],
): Promise<Unknownable<Device[]>> {
  const executable = join(
    engineDirectory,
    process.platform === 'win32' ? 'llama-server.exe' : 'llama-server',
  );
  const output = await new Promise<string | Error>((resolve) => {
    execFile(
      executable,
      ['--list-devices'],
      {
        env: engineEnvironment({}),
        timeout: listMs,
        killSignal: 'SIGKILL',
        maxBuffer: mib,
        windowsHide: true,
      },
      (error, stdout) => resolve(error ?? stdout),
    );
  });
  if (typeof output !== 'string') {
    return { known: false, reason: `the engine's device list failed: ${output.message}`.slice(0, 512) };
  }
  const devices = parseDeviceList(output);
  return {
    known: true,
    value: [
      {
        id: 'CPU',
        kind: 'cpu',
        backend: 'CPU',
        name: cpu.model.slice(0, 256),
        totalBytes: cpu.totalBytes,
        freeBytes: cpu.freeBytes,
        pciId: null,
      },
      ...withPciIds(devices, gpus),
    ].slice(0, 64) as Device[],
  };
}

/** Lines such as `  CUDA0: NVIDIA GeForce RTX 3090 (24575 MiB, 23592 MiB free)`. */
export function parseDeviceList(output: string): Device[] {
  const devices: Device[] = [];
  for (const line of output.split('\n')) {
    const match = /^\s+(\S{1,64}): (.*) \((\d+) MiB, (\d+) MiB free\)\s*$/.exec(line);
    if (!match) continue;
    const [, id = '', name = '', total, free] = match;
    const backend = id.replace(/\d+$/, '');
    if (notForLayers.has(backend)) continue;
    devices.push({
      id,
      kind: 'gpu',
      backend,
      name: name.slice(0, 256),
      totalBytes: Number(total) * mib,
      freeBytes: Number(free) * mib,
      pciId: null,
    });
  }
  return devices;
}

/**
 * The engine does not print bus addresses; the system's list of cards does. Cards are matched by model, several
 * of one model in order, once per backend: that is how the same card under two backends gets one address.
 */
export function withPciIds(devices: readonly Device[], gpus: readonly GpuAddress[]): Device[] {
  const taken = new Set<string>();
  return devices.map((device) => {
    const name = plain(device.name);
    const card = gpus.find(
      (gpu) =>
        gpu.pciId !== null &&
        !taken.has(`${device.backend} ${gpu.pciId}`) &&
        plain(gpu.model) !== '' &&
        (name.includes(plain(gpu.model)) || plain(gpu.model).includes(name)),
    );
    if (!card?.pciId) return device;
    taken.add(`${device.backend} ${card.pciId}`);
    return { ...device, pciId: card.pciId };
  });
}

function plain(name: string): string {
  return name
    .toLowerCase()
    .replace(/nvidia|geforce|amd|radeon|intel|corporation|\(r\)|\(tm\)|graphics/g, '')
    .replace(/[^a-z0-9]/g, '');
}
