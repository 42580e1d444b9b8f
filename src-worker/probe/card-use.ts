import { readdir, readFile, readlink } from 'node:fs/promises';
import { runCommand, type RunCommand } from '../../src-main/nodejs/run-command.ts';

/** What programs hold on graphics cards: bytes by bus address (`0000:01:00.0`), by process id. */
export type CardUse = ReadonlyMap<number, ReadonlyMap<string, number>>;

const mib = 1024 * 1024;

/**
 * Memory on graphics cards of these programs alone, whoever else uses the cards: NVIDIA's by `nvidia-smi`, others'
 * from what Linux' drivers tell of each program. Where neither tells, a program is not in the answer. Never rejects.
 */
export async function readCardUse(
  pids: readonly number[],
  nvidia: boolean,
  run: RunCommand = runCommand,
  proc = '/proc',
): Promise<CardUse> {
  const use = new Map<number, Map<string, number>>();
  const add = (pid: number, card: string, bytes: number): void => {
    const cards = use.get(pid) ?? new Map<string, number>();
    use.set(pid, cards.set(card, (cards.get(card) ?? 0) + bytes));
  };
  if (nvidia) {
    const asked = await run('nvidia-smi', [
      '--query-compute-apps=pid,gpu_bus_id,used_memory',
      '--format=csv,noheader,nounits',
    ]);
    for (const { pid, card, bytes } of asked.ok ? parseComputeApps(asked.stdout) : []) {
      if (pids.includes(pid)) add(pid, card, bytes);
    }
  }
  await Promise.all(
    pids.map(async (pid) => {
      for (const { card, bytes } of parseClients(await clientTexts(`${proc}/${pid}`))) add(pid, card, bytes);
    }),
  );
  return use;
}

/** Lines such as `4711, 00000000:01:00.0, 5120` (MiB); what a driver does not tell is `[N/A]`. */
export function parseComputeApps(text: string): { pid: number; card: string; bytes: number }[] {
  return text.split('\n').flatMap((line) => {
    const match = /^(\d+), *[0-9a-f]{4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]), *(\d+)$/i.exec(
      line.trim(),
    );
    return match?.[2]
      ? [{ pid: Number(match[1]), card: match[2].toLowerCase(), bytes: Number(match[3]) * mib }]
      : [];
  });
}

/** What /proc/PID/fdinfo says of each file that is open at a graphics card. */
async function clientTexts(process: string): Promise<string[]> {
  const files = await readdir(`${process}/fd`).catch(() => []);
  const texts = await Promise.all(
    files.map(async (file) => {
      const target = await readlink(`${process}/fd/${file}`).catch(() => '');
      return target.startsWith('/dev/dri/')
        ? await readFile(`${process}/fdinfo/${file}`, 'latin1').catch(() => '')
        : '';
    }),
  );
  return texts.filter((text) => text !== '');
}

/**
 * Memory of the card itself that each client of it holds (Documentation/gpu/drm-usage-stats.rst in the kernel's
 * source). Duplicated files tell of one client twice. `drm-memory-` is the older word for `drm-resident-`; of the
 * regions, those that begin with `vram` or `local` are on the card.
 */
export function parseClients(texts: readonly string[]): { card: string; bytes: number }[] {
  const clients = new Map<string, { card: string; bytes: number }>();
  for (const text of texts) {
    const card = /^drm-pdev:\s*(\S+)$/m.exec(text)?.[1]?.toLowerCase();
    if (card === undefined) continue;
    const client = `${card} ${/^drm-client-id:\s*(\d+)$/m.exec(text)?.[1] ?? clients.size}`;
    const regions = new Map<string, number>();
    for (const word of ['memory', 'resident']) {
      const lines = text.matchAll(
        new RegExp(`^drm-${word}-((?:vram|local)\\d*):\\s*(\\d+)(?: (KiB|MiB))?$`, 'gm'),
      );
      for (const [, region = '', number, unit] of lines) {
        regions.set(region, Number(number) * (unit === 'MiB' ? mib : unit === 'KiB' ? 1024 : 1));
      }
    }
    if (regions.size === 0) continue;
    clients.set(client, { card, bytes: [...regions.values()].reduce((sum, bytes) => sum + bytes, 0) });
  }
  return [...clients.values()];
}
