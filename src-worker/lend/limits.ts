import type { LendRules } from '#shared/domain/lend.ts';
import type { Telemetry } from '#shared/domain/node.ts';
import { deviceBytesOf } from '../agent/held-memory.ts';
import type { EngineRecord } from '../agent/state.ts';

/** What the covey's engines take of a machine. */
export interface Used {
  readonly ramBytes: number;
  /** By accelerator. */
  readonly deviceBytes: ReadonlyMap<string, number>;
}

/**
 * Figures as the covey may count on them: what is free, at most what the owner still lends. Totals stay true.
 */
export function withinLimits(telemetry: Telemetry, limits: LendRules['limits'], used: Used): Telemetry {
  const ramLeft = left(limits.ramBytes, used.ramBytes);
  const ramAvailableBytes = Math.min(telemetry.ramAvailableBytes, ramLeft);
  return {
    ...telemetry,
    ramAvailableBytes,
    deviceFree: telemetry.deviceFree.map((device) => ({
      ...device,
      freeBytes: Math.min(
        device.freeBytes,
        device.id === 'CPU'
          ? ramLeft
          : left(limits.vramBytes[device.id] ?? null, used.deviceBytes.get(device.id) ?? 0),
      ),
    })),
  };
}

function left(limit: number | null, used: number): number {
  return limit === null ? Infinity : Math.max(0, limit - used);
}

/** What engines take, by their own account and, on accelerators, by their drivers' or by what was sent there. */
export function usedBy(
  engines: readonly Pick<EngineRecord, 'assignment' | 'rssBytes' | 'deviceBytes'>[],
): Used {
  const deviceBytes = new Map<string, number>();
  let ramBytes = 0;
  for (const engine of engines) {
    ramBytes += engine.rssBytes ?? 0;
    for (const [device, bytes] of deviceBytesOf(engine)) {
      deviceBytes.set(device, (deviceBytes.get(device) ?? 0) + bytes);
    }
  }
  return { ramBytes, deviceBytes };
}
