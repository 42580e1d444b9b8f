import type { LendRules } from '#shared/domain/lend.ts';
import type { EngineAssignment } from '#shared/domain/engine.ts';
import type { Telemetry } from '#shared/domain/node.ts';

/** What the covey's engines take of a machine. */
export interface Used {
  readonly ramBytes: number;
  /** By accelerator, the weights that were sent there: what an engine holds on a card is told by nobody. */
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

/** What engines take, by their own account and, on accelerators, by what they were told to hold. */
export function usedBy(
  engines: readonly { readonly assignment: EngineAssignment; readonly rssBytes: number | null }[],
): Used {
  const deviceBytes = new Map<string, number>();
  const add = (device: string, bytes: number): void => {
    if (device !== 'CPU') deviceBytes.set(device, (deviceBytes.get(device) ?? 0) + bytes);
  };
  let ramBytes = 0;
  for (const { assignment, rssBytes } of engines) {
    ramBytes += rssBytes ?? 0;
    if (assignment.kind === 'rpc') {
      add(assignment.device, assignment.weightBytes);
      continue;
    }
    const elsewhere = assignment.stageBytes.reduce((sum, bytes) => sum + bytes, 0);
    const shares = assignment.localDevices.map((_device, index) => assignment.tensorSplit[index] ?? 0);
    const all = shares.reduce((sum, share) => sum + share, 0);
    assignment.localDevices.forEach((device, index) => {
      add(device, all > 0 ? (assignment.modelBytes - elsewhere) * ((shares[index] ?? 0) / all) : 0);
    });
  }
  return { ramBytes, deviceBytes };
}
