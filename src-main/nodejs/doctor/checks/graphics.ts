import type { Hardware } from '#shared/domain/node.ts';
import { clause, listing, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';

type Gpu = Extract<Hardware['gpus'], { known: true }>['value'][number];

/** Cards that only paint: of virtual machines, of servers' remote consoles, of Windows without a driver. */
const paintOnly =
  /red hat|virtio|qxl|bochs|cirrus|vmware|svga|virtualbox|hyper-v|microsoft (basic|remote)|parallels|aspeed|matrox|xen\b/i;

/** Whether every card that could compute has a driver and is seen by the engine. */
export function checkGraphics({ node }: DoctorContext): Finding {
  if (node === null) return { status: 'skipped', summary: 'Graphics cards are asked for by a running node' };
  if (!node.lends) return { status: 'skipped', summary: 'This machine computes nothing itself' };
  const { hardware } = node;
  if (hardware === null) return { status: 'skipped', summary: 'The hardware is not probed yet' };
  const { gpus, devices } = hardware;
  if (!devices.known) {
    return {
      status: 'fail',
      summary: `The engine cannot say what it computes on: ${clause(devices.reason)}`,
      action: 'Run "npm run build:engine" in a checkout, or install Covey again',
    };
  }
  const used = devices.value.filter(({ kind }) => kind === 'gpu');
  const usedText = listing(used.map(({ name, id }) => `${name} (${id})`));
  if (!gpus.known) {
    if (used.length > 0) return { status: 'ok', summary: `The engine computes on ${usedText}` };
    return { status: 'skipped', summary: `Graphics cards cannot be listed: ${clause(gpus.reason)}` };
  }
  const cards = gpus.value.filter(({ vendor, model }) => !paintOnly.test(`${vendor} ${model}`));
  if (used.length === 0 && cards.length === 0) {
    return { status: 'ok', summary: 'There is no graphics card that computes, so the CPU does' };
  }
  // The engine lists integrated graphics only with some backends, so cards are compared by number alone.
  const cardsUsed = new Set(used.map(({ pciId, name }) => pciId ?? name)).size;
  if (cardsUsed >= cards.length) {
    const drivers = cards.flatMap(({ driver }) => (driver === null ? [] : [driver]));
    const driverText = drivers.length > 0 ? `, driver ${listing([...new Set(drivers)])}` : '';
    return { status: 'ok', summary: `The engine computes on ${usedText}${driverText}` };
  }
  const unused = cards.filter((card) => !used.some(({ name }) => alike(name, card.model)));
  const [first = cards[0]] = unused;
  return {
    status: 'warn',
    summary: `The engine does not use ${listing((unused.length > 0 ? unused : cards).map(({ model }) => model))}${used.length > 0 ? `, only ${usedText}` : ', so the CPU computes'}`,
    action: first ? driverAdvice(first, hardware.os.platform) : null,
  };
}

function driverAdvice({ vendor, model, driver }: Gpu, platform: string): string {
  const name = `${vendor} ${model}`;
  if (/nvidia/i.test(name)) {
    return driver === null
      ? "Install NVIDIA's driver and start Covey again"
      : `Install an engine build with CUDA or Vulkan (the driver ${driver} is there), then start Covey again`;
  }
  if (platform === 'linux' && /amd|ati\b|radeon|intel/i.test(name)) {
    return 'Install the Vulkan driver ("mesa-vulkan-drivers") and an engine build with Vulkan, then start Covey again';
  }
  return `Install the maker's current driver for ${model}, then start Covey again`;
}

function alike(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => text.toLowerCase().replace(/[^a-z0-9]/g, ''));
  return a !== undefined && b !== undefined && a !== '' && b !== '' && (a.includes(b) || b.includes(a));
}
