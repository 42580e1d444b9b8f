import type { NodeLive } from '#shared/api/dashboard.ts';
import type { NodeView } from '#shared/api/schema.ts';
import { systemName } from '#shared/lib/system-name.ts';

/** An accelerator of a machine and how full it is. */
export interface DeviceFigures {
  readonly id: string;
  readonly name: string;
  readonly totalBytes: number;
  readonly usedBytes: number;
  /** 0..1 */
  readonly load: number | null;
  readonly celsius: number | null;
}

/** What is known of a machine now: live figures where they come, else what it said last. */
export interface NodeFigures {
  /** 0..1 */
  readonly cpuLoad: number | null;
  readonly ramTotalBytes: number | null;
  readonly ramUsedBytes: number | null;
  /** Engines' own memory. */
  readonly enginesBytes: number;
  readonly diskFreeBytes: number | null;
  readonly receiveBytesPerS: number | null;
  readonly sendBytesPerS: number | null;
  readonly celsius: number | null;
  readonly devices: readonly DeviceFigures[];
}

/** A machine that is not connected has no figures of now: those of before would pass for them. */
export function nodeFigures(node: NodeView, live: NodeLive | null): NodeFigures {
  const { hardware, telemetry } = node;
  const ramTotalBytes =
    telemetry?.ramTotalBytes ?? (hardware?.ram.known === true ? hardware.ram.value.totalBytes : null);
  const now = node.connected ? (live ?? telemetry) : null;
  const available = now?.ramAvailableBytes ?? null;
  const free = node.connected ? (live?.devices ?? telemetry?.deviceFree ?? []) : [];
  const accelerators =
    hardware?.devices.known === true ? hardware.devices.value.filter((device) => device.kind === 'gpu') : [];
  return {
    cpuLoad: now?.cpuLoad ?? null,
    ramTotalBytes,
    ramUsedBytes: ramTotalBytes === null || available === null ? null : ramTotalBytes - available,
    enginesBytes: node.engines.reduce((sum, engine) => sum + (engine.rssBytes ?? 0), 0),
    diskFreeBytes: node.connected ? (telemetry?.diskFreeBytes ?? null) : null,
    receiveBytesPerS: now?.receiveBytesPerS ?? null,
    sendBytesPerS: now?.sendBytesPerS ?? null,
    celsius: now?.celsius ?? null,
    devices: accelerators.map((device) => {
      const state = free.find(({ id }) => id === device.id);
      const freeBytes = state?.freeBytes ?? device.freeBytes;
      return {
        id: device.id,
        name: device.name,
        totalBytes: device.totalBytes,
        usedBytes: Math.max(0, device.totalBytes - freeBytes),
        load: state?.load ?? null,
        celsius: state?.celsius ?? null,
      };
    }),
  };
}

/** `Linux · x64`, as people call it. */
export function systemText(node: NodeView): string | null {
  if (node.hardware === null) return null;
  const { platform, arch } = node.hardware.os;
  return `${systemName(platform)} · ${arch}`;
}
