import type { EngineAssignment } from '#shared/domain/engine.ts';
import type { EngineRecord } from './state.ts';

/**
 * Bytes that an engine holds by accelerator: as its driver tells them, else the weights that were sent there, which
 * is less than it takes.
 */
export function deviceBytesOf({
  assignment,
  deviceBytes,
}: Pick<EngineRecord, 'assignment' | 'deviceBytes'>): ReadonlyMap<string, number> {
  const held = new Map(Object.entries(weightsByDevice(assignment)));
  for (const [device, bytes] of Object.entries(deviceBytes ?? {})) held.set(device, bytes);
  return held;
}

function weightsByDevice(assignment: EngineAssignment): Record<string, number> {
  if (assignment.kind === 'rpc') {
    return assignment.device === 'CPU' ? {} : { [assignment.device]: assignment.weightBytes };
  }
  const elsewhere = assignment.stageBytes.reduce((sum, bytes) => sum + bytes, 0);
  const shares = assignment.localDevices.map((_device, index) => assignment.tensorSplit[index] ?? 0);
  const all = shares.reduce((sum, share) => sum + share, 0);
  return Object.fromEntries(
    assignment.localDevices.flatMap((device, index) =>
      device === 'CPU' || all === 0
        ? []
        : [[device, (assignment.modelBytes - elsewhere) * ((shares[index] ?? 0) / all)] as const],
    ),
  );
}
