import { arch, hostname, platform, release, totalmem } from 'node:os';
import { readFile, readdir, statfs } from 'node:fs/promises';
import type { Hardware, Unknownable } from '#shared/domain/node.ts';
import { readCores } from './cores.ts';
import { probeDevices, type GpuAddress } from './devices.ts';
import { availableBytes } from './memory.ts';

const partMs = 10_000;

/**
 * What this machine is. Every part degrades on its own to `unknown` with the reason, each within a deadline;
 * nothing here throws.
 * @param engineDirectory null with the reason when there is none to ask
 */
export async function probeHardware(options: {
  readonly dataDirectory: string;
  readonly engine: { readonly directory: string } | { readonly directory: null; readonly reason: string };
}): Promise<Hardware> {
  const cores = readCores();
  const [gpus, disk, physical] = await Promise.all([
    part('graphics cards', probeGpus),
    part('disk', () => probeDisk(options.dataDirectory)),
    part('cores', () => probePhysicalCores(cores.physical)),
  ]);
  const devices: Hardware['devices'] =
    options.engine.directory === null
      ? { known: false, reason: options.engine.reason.slice(0, 512) }
      : await probeDevices(
          options.engine.directory,
          { model: cores.model, totalBytes: totalmem(), freeBytes: availableBytes() },
          gpus.known ? gpus.value : [],
        );
  return {
    os: {
      platform: platform(),
      arch: arch(),
      release: release().slice(0, 256),
      hostname: hostname().slice(0, 256),
    },
    cpu: {
      known: true,
      value: {
        model: cores.model.slice(0, 256),
        physicalCores: physical.known ? physical.value : cores.physical,
        logicalCores: cores.logical,
      },
    },
    ram: { known: true, value: { totalBytes: totalmem() } },
    disk,
    gpus: gpus.known
      ? {
          known: true,
          value: gpus.value.map(({ vendor, model, vramBytes, driver }) => ({
            vendor,
            model,
            vramBytes,
            driver,
          })),
        }
      : gpus,
    devices,
  };
}

async function part<T>(name: string, probe: () => Promise<T>): Promise<Unknownable<T>> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${partMs / 1000} s`)), partMs);
  });
  try {
    return { known: true, value: await Promise.race([probe(), late]) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { known: false, reason: `${name}: ${why}`.slice(0, 512) };
  } finally {
    clearTimeout(timer);
  }
}

async function probeDisk(path: string): Promise<{ path: string; totalBytes: number; freeBytes: number }> {
  const stats = await statfs(path);
  return {
    path: path.slice(0, 1024),
    totalBytes: stats.blocks * stats.bsize,
    freeBytes: stats.bavail * stats.bsize,
  };
}

interface Gpu extends GpuAddress {
  readonly vendor: string;
  readonly vramBytes: number | null;
  readonly driver: string | null;
}

async function probeGpus(): Promise<Gpu[]> {
  if (process.platform === 'linux' && !(await hasDisplayController())) return [];
  // Loaded when there is something to ask for: it takes 10 MB that do not come back.
  const { graphics } = await import('systeminformation');
  const { controllers } = await graphics();
  return controllers.slice(0, 32).map((card) => ({
    vendor: text(card.vendor) ?? 'unknown',
    model: text(card.model) ?? text(card.name) ?? 'unknown',
    vramBytes: typeof card.vram === 'number' && card.vram > 0 ? card.vram * 1024 * 1024 : null,
    driver: text(card.driverVersion),
    pciId: pciId(card.pciBus) ?? pciId(card.busAddress),
  }));
}

/** Whether Linux knows of any: a PCI device of class 03, or a driver's card where there is no PCI. */
async function hasDisplayController(): Promise<boolean> {
  const devices = await readdir('/sys/bus/pci/devices').catch(() => []);
  const classes = await Promise.all(
    devices.map((name) => readFile(`/sys/bus/pci/devices/${name}/class`, 'latin1').catch(() => '')),
  );
  if (classes.some((text) => text.startsWith('0x03'))) return true;
  const cards = await readdir('/sys/class/drm').catch(() => []);
  return cards.some((name) => /^card\d+$/.test(name));
}

/** `01:00.0` and `00000000:01:00.0` are how the same address is written elsewhere. */
function pciId(value: string | undefined): string | null {
  const match = /^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])$/i.exec(value ?? '');
  return match ? `${(match[1] ?? '0000').slice(-4)}:${match[2]}`.toLowerCase() : null;
}

function text(value: string | undefined): string | null {
  return value ? value.slice(0, 256) : null;
}

/** Linux tells in /proc (see cores.ts); elsewhere the system has to be asked by a command. */
async function probePhysicalCores(estimate: number): Promise<number> {
  if (process.platform === 'linux') return estimate;
  const { cpu } = await import('systeminformation');
  const { physicalCores } = await cpu();
  return physicalCores > 0 ? Math.min(physicalCores, estimate) : estimate;
}
