import { readdir, readFile } from 'node:fs/promises';
import type { Device } from '#shared/domain/node.ts';
import { runCommand, type RunCommand } from '../../src-main/nodejs/run-command.ts';

/** What a graphics card tells of itself now. */
export interface CardFigures {
  /** `0000:01:00.0` */
  readonly pciId: string;
  readonly freeBytes: number | null;
  /** 0..1 */
  readonly load: number | null;
  readonly celsius: number | null;
}

const askEveryMs = 5_000;
/** A tool that is not there is not asked for again so soon. */
const pauseMs = 5 * 60_000;
const mib = 1024 * 1024;

export interface CardWatch {
  /** Of the last look; looks again in the background when that is 5 s old. */
  figures(devices: readonly Device[]): ReadonlyMap<string, CardFigures>;
}

/**
 * Live figures of graphics cards by bus address: NVIDIA's by `nvidia-smi`, AMD's (Linux) from sysfs. Others show
 * none. Asked only for cards that the engine computes on.
 * @param now monotonic ms
 */
export function createCardWatch(
  now: () => number,
  look: { readonly run: RunCommand; readonly amd: () => Promise<CardFigures[]> } = {
    run: runCommand,
    amd: readAmdCards,
  },
): CardWatch {
  let found = new Map<string, CardFigures>();
  let nextAt = -Infinity;
  let looking = false;

  const lookAtAll = async (nvidia: boolean): Promise<void> => {
    const asked = nvidia
      ? await look.run('nvidia-smi', [
          '--query-gpu=pci.bus_id,memory.free,utilization.gpu,temperature.gpu',
          '--format=csv,noheader,nounits',
        ])
      : null;
    const cards = asked?.ok ? parseNvidiaSmi(asked.stdout) : [];
    cards.push(...(await look.amd()));
    found = new Map(cards.map((card) => [card.pciId, card]));
    nextAt = now() + (cards.length > 0 ? askEveryMs : pauseMs);
  };
  return {
    figures(devices) {
      const cards = devices.filter((device) => device.kind === 'gpu' && device.pciId !== null);
      if (cards.length > 0 && !looking && now() >= nextAt) {
        looking = true;
        void lookAtAll(cards.some(isNvidia)).finally(() => (looking = false));
      }
      return found;
    },
  };
}

/** Whether NVIDIA's tool knows it. */
export function isNvidia({ backend, name }: Pick<Device, 'backend' | 'name'>): boolean {
  return backend === 'CUDA' || /nvidia/i.test(name);
}

/** Lines such as `00000000:01:00.0, 23592, 35, 61`; what a card does not tell is `[N/A]`. */
export function parseNvidiaSmi(text: string): CardFigures[] {
  return text.split('\n').flatMap((line) => {
    const [bus = '', free, load, celsius] = line.split(',').map((field) => field.trim());
    const match = /^[0-9a-f]{4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])$/i.exec(bus);
    if (!match?.[1]) return [];
    const figure = (field: string | undefined): number | null =>
      field !== undefined && /^\d+(\.\d+)?$/.test(field) ? Number(field) : null;
    const freeMib = figure(free);
    const percent = figure(load);
    return [
      {
        pciId: match[1].toLowerCase(),
        freeBytes: freeMib === null ? null : freeMib * mib,
        load: percent === null ? null : Math.min(1, percent / 100),
        celsius: figure(celsius),
      },
    ];
  });
}

/** The amdgpu driver's files (Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst in the kernel's source). */
export async function readAmdCards(drm = '/sys/class/drm'): Promise<CardFigures[]> {
  const cards = (await readdir(drm).catch(() => [])).filter((name) => /^card\d+$/.test(name));
  const found = await Promise.all(
    cards.map(async (card): Promise<CardFigures | null> => {
      const device = `${drm}/${card}/device`;
      const pciId = /PCI_SLOT_NAME=(\S+)/.exec((await read(`${device}/uevent`)) ?? '')?.[1];
      const busy = await readNumber(`${device}/gpu_busy_percent`);
      if (!pciId || busy === null) return null;
      const total = await readNumber(`${device}/mem_info_vram_total`);
      const used = await readNumber(`${device}/mem_info_vram_used`);
      const [monitor] = await readdir(`${device}/hwmon`).catch(() => []);
      const celsius = monitor ? await readNumber(`${device}/hwmon/${monitor}/temp1_input`) : null;
      return {
        pciId: pciId.toLowerCase(),
        freeBytes: total === null || used === null ? null : Math.max(0, total - used),
        load: Math.min(1, busy / 100),
        celsius: celsius === null ? null : celsius / 1000,
      };
    }),
  );
  return found.filter((card) => card !== null);
}

async function read(path: string): Promise<string | null> {
  return await readFile(path, 'latin1').catch(() => null);
}

async function readNumber(path: string): Promise<number | null> {
  const text = (await read(path))?.trim() ?? '';
  return /^\d+$/.test(text) ? Number(text) : null;
}
