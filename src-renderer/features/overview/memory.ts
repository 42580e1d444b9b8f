import type { NodeLive } from '#shared/api/dashboard.ts';
import type { NodeView } from '#shared/api/schema.ts';

export interface MemoryFigure {
  readonly totalBytes: number;
  readonly usedBytes: number;
  /** What engines of the covey hold of it; null where that is not known. */
  readonly oursBytes: number | null;
}

/** Of one machine; null: it has told nothing. */
export function ramOf(node: NodeView, live: NodeLive | null): MemoryFigure | null {
  const { telemetry } = node;
  if (telemetry === null || telemetry.ramTotalBytes === 0) return null;
  const available = live?.ramAvailableBytes ?? telemetry.ramAvailableBytes;
  return {
    totalBytes: telemetry.ramTotalBytes,
    usedBytes: Math.max(0, telemetry.ramTotalBytes - available),
    oursBytes: node.engines.reduce((sum, engine) => sum + (engine.rssBytes ?? 0), 0),
  };
}

/** Of all its GPUs together; null: it has none. */
export function vramOf(node: NodeView, live: NodeLive | null): MemoryFigure | null {
  const { hardware, telemetry } = node;
  if (hardware === null || !hardware.devices.known) return null;
  const gpus = hardware.devices.value.filter((device) => device.kind === 'gpu');
  // A card that two backends see is one card.
  const cards = gpus.filter(
    (gpu, index) => gpu.pciId === null || gpus.findIndex(({ pciId }) => pciId === gpu.pciId) === index,
  );
  if (cards.length === 0) return null;
  const freeOf = (id: string, atStart: number): number =>
    live?.devices.find((device) => device.id === id)?.freeBytes ??
    telemetry?.deviceFree.find((device) => device.id === id)?.freeBytes ??
    atStart;
  return {
    totalBytes: cards.reduce((sum, card) => sum + card.totalBytes, 0),
    usedBytes: cards.reduce((sum, card) => sum + card.totalBytes - freeOf(card.id, card.freeBytes), 0),
    oursBytes: null,
  };
}

/** Of those that are connected: what is off lends nothing. */
export function coveyMemory(
  nodes: readonly NodeView[],
  live: ReadonlyMap<string, NodeLive>,
  of: (node: NodeView, live: NodeLive | null) => MemoryFigure | null,
): MemoryFigure | null {
  const figures = nodes
    .filter((node) => node.connected)
    .flatMap((node) => of(node, live.get(node.id) ?? null) ?? []);
  if (figures.length === 0) return null;
  const oursKnown = figures.every((figure) => figure.oursBytes !== null);
  return {
    totalBytes: figures.reduce((sum, figure) => sum + figure.totalBytes, 0),
    usedBytes: figures.reduce((sum, figure) => sum + figure.usedBytes, 0),
    oursBytes: oursKnown ? figures.reduce((sum, figure) => sum + (figure.oursBytes ?? 0), 0) : null,
  };
}
