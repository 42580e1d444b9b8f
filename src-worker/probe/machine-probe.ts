import type { Address, Hardware, Telemetry } from '#shared/domain/node.ts';
import type { Transport } from '../../src-main/nodejs/transport/transport.ts';
import type { WorkerEngine } from '../worker-engine.ts';
import { dialAddresses } from '../../src-main/nodejs/own-addresses.ts';
import { readCardUse } from './card-use.ts';
import { readCores, type Cores } from './cores.ts';
import { probeHardware } from './hardware.ts';
import { isNvidia } from './card-figures.ts';
import { createTelemetrySampler } from './telemetry.ts';

export interface MachineView {
  readonly hardware: Hardware;
  readonly addresses: Address[];
}

/** Bytes on graphics cards by the engine's name for them (`CUDA0`), by process id. */
export type DeviceUse = ReadonlyMap<number, Readonly<Record<string, number>>>;

export interface MachineProbe {
  readonly cores: Cores;
  /** The machine as it is now; the slow parts are asked again after a minute. */
  look(): Promise<MachineView>;
  /** As seen by the last look; null before it. */
  hardware(): Hardware | null;
  sample(): Telemetry;
  /** What these programs hold on graphics cards, as far as drivers tell. */
  deviceUse(pids: readonly number[]): Promise<DeviceUse>;
  /** Reasons why this node must not get work. */
  problems(): string[];
  /** The last look with other addresses, when the machine has moved to another network since. */
  moved(): MachineView | null;
}

const hardwareFreshMs = 60_000;

/** Everything a worker knows of its own machine. Never throws. */
export function createMachineProbe(options: {
  readonly dataDirectory: string;
  readonly engine: WorkerEngine;
  readonly transport: Pick<Transport, 'clusterAddress' | 'rssBytes'>;
}): MachineProbe {
  const { engine, transport } = options;
  const cores = readCores();
  const now = (): number => performance.now();
  const telemetry = createTelemetrySampler({
    dataDirectory: options.dataDirectory,
    transportRssBytes: () => transport.rssBytes,
    now,
  });
  let last: MachineView | null = null;
  let hardwareAt = -Infinity;

  const addresses = (): Address[] => dialAddresses(transport.clusterAddress);

  return {
    cores,
    async look() {
      if (!last || now() - hardwareAt > hardwareFreshMs) {
        const hardware = await probeHardware({ dataDirectory: options.dataDirectory, engine });
        hardwareAt = now();
        if (hardware.devices.known) telemetry.setDevices(hardware.devices.value);
        last = { hardware, addresses: addresses() };
      } else {
        last = { ...last, addresses: addresses() };
      }
      return last;
    },
    hardware: () => last?.hardware ?? null,
    sample: () => telemetry.sample(),
    async deviceUse(pids) {
      const devices = last?.hardware.devices.known ? last.hardware.devices.value : [];
      const cards = devices.filter(({ kind, pciId }) => kind === 'gpu' && pciId !== null);
      if (cards.length === 0) return new Map();
      const use = await readCardUse(pids, cards.some(isNvidia));
      const byName = (onCards: ReadonlyMap<string, number>): Record<string, number> =>
        Object.fromEntries(
          cards.flatMap(({ id, pciId }) => {
            const bytes = onCards.get(pciId ?? '');
            return bytes === undefined ? [] : [[id, bytes] as const];
          }),
        );
      return new Map([...use].map(([pid, onCards]) => [pid, byName(onCards)]));
    },
    problems() {
      if (engine.directory === null) return [engine.reason.slice(0, 512)];
      const devices = last?.hardware.devices;
      return devices && !devices.known ? [devices.reason] : [];
    },
    moved() {
      if (!last) return null;
      const current = addresses();
      if (JSON.stringify(current) === JSON.stringify(last.addresses)) return null;
      last = { ...last, addresses: current };
      return last;
    },
  };
}
