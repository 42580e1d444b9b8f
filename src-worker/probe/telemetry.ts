import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import type { Device, Telemetry } from '#shared/domain/node.ts';
import { createCardWatch } from './card-figures.ts';
import { createCpuTemperature } from './cpu-temperature.ts';
import { availableBytes } from './memory.ts';
import { createNetworkRate } from './network-rate.ts';

export interface TelemetrySampler {
  /** Cheap enough for every heartbeat. CPU load is that since the last sample. */
  sample(): Telemetry;
  /** Devices of the last probe; their free memory is fresh for the CPU and for cards that tell it. */
  setDevices(devices: readonly Device[]): void;
}

const diskEveryMs = 30_000;

/**
 * Live figures of this machine. Reads three small files of /proc on Linux and the system's own calls elsewhere; the
 * disk is looked at every 30 s, temperatures and cards every few seconds, and none of them is waited for.
 * @param now monotonic ms
 */
export function createTelemetrySampler(options: {
  readonly dataDirectory: string;
  readonly transportRssBytes: () => number | null;
  readonly now: () => number;
}): TelemetrySampler {
  let before = readCpuTimes();
  let devices: readonly Device[] = [];
  let diskFreeBytes: number | null = null;
  const network = createNetworkRate(options.now);
  const temperature = createCpuTemperature(options.now);
  const cardWatch = createCardWatch(options.now);
  let diskAt = -Infinity;

  const lookAtDisk = async (): Promise<void> => {
    try {
      const stats = await statfs(options.dataDirectory);
      diskFreeBytes = stats.bavail * stats.bsize;
    } catch {
      diskFreeBytes = null;
    }
  };

  return {
    setDevices(next) {
      devices = next;
    },
    sample() {
      const now = options.now();
      if (now - diskAt >= diskEveryMs) {
        diskAt = now;
        void lookAtDisk();
      }
      const after = readCpuTimes();
      const load = cpuLoad(before, after);
      // Two samples in the same tick tell nothing; the longer span will.
      if (load !== null) before = after;
      const ramAvailableBytes = availableBytes();
      const cards = cardWatch.figures(devices);
      return {
        cpuLoad: load,
        ramTotalBytes: totalmem(),
        ramAvailableBytes,
        diskFreeBytes,
        ownRssBytes: process.memoryUsage.rss() + (options.transportRssBytes() ?? 0),
        deviceFree: devices.map((device) => {
          if (device.kind === 'cpu') {
            return { id: device.id, freeBytes: ramAvailableBytes, load, celsius: temperature.celsius() };
          }
          const card = device.pciId === null ? undefined : cards.get(device.pciId);
          return {
            id: device.id,
            freeBytes: card?.freeBytes ?? device.freeBytes,
            load: card?.load ?? null,
            celsius: card?.celsius ?? null,
          };
        }),
        ...network.sample(),
        celsius: temperature.celsius(),
      };
    },
  };
}

export interface CpuTimes {
  readonly busy: number;
  readonly total: number;
}

/** Share of busy time between two readings, 0..1; null when nothing passed. */
export function cpuLoad(before: CpuTimes | null, after: CpuTimes | null): number | null {
  if (!before || !after || after.total <= before.total) return null;
  return Math.min(1, Math.max(0, (after.busy - before.busy) / (after.total - before.total)));
}

function readCpuTimes(): CpuTimes | null {
  try {
    return process.platform === 'linux' ? parseProcStat(readFileSync('/proc/stat', 'latin1')) : sumCpus();
  } catch {
    return null;
  }
}

/** First line of /proc/stat: user nice system idle iowait irq softirq steal (proc_stat(5)); guest time is in user. */
export function parseProcStat(text: string): CpuTimes | null {
  const line = /^cpu +(.+)$/m.exec(text)?.[1];
  if (!line) return null;
  const fields = line.split(' ').slice(0, 8).map(Number);
  const total = fields.reduce((sum, value) => sum + value, 0);
  const idle = (fields[3] ?? 0) + (fields[4] ?? 0);
  return { busy: total - idle, total };
}

function sumCpus(): CpuTimes {
  let busy = 0;
  let total = 0;
  for (const { times } of cpus()) {
    const all = times.user + times.nice + times.sys + times.idle + times.irq;
    total += all;
    busy += all - times.idle;
  }
  return { busy, total };
}
