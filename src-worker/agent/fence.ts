import type { DeploymentId, EngineId } from '#shared/lib/ids.ts';

/** The highest epoch of a deployment that was started here, and which of its engines. */
export interface Fence {
  readonly epoch: number;
  readonly engineIds: ReadonlySet<EngineId>;
}

/**
 * Deployments remembered; beyond it the one that has been quiet longest is forgotten. The controller never
 * repeats an id, so this only bounds memory.
 */
const maxFences = 4096;

/** Whether starting this engine would repeat an id or go back to an epoch that is over. */
export function isFenced(
  fences: ReadonlyMap<DeploymentId, Fence>,
  engine: { readonly engineId: EngineId; readonly deploymentId: DeploymentId; readonly epoch: number },
): boolean {
  const fence = fences.get(engine.deploymentId);
  if (!fence) return false;
  return engine.epoch < fence.epoch || (engine.epoch === fence.epoch && fence.engineIds.has(engine.engineId));
}

/** The fences with this engine's start recorded. */
export function withFence(
  fences: ReadonlyMap<DeploymentId, Fence>,
  engine: { readonly engineId: EngineId; readonly deploymentId: DeploymentId; readonly epoch: number },
): ReadonlyMap<DeploymentId, Fence> {
  const next = new Map(fences);
  const before = next.get(engine.deploymentId);
  next.delete(engine.deploymentId);
  next.set(engine.deploymentId, {
    epoch: engine.epoch,
    engineIds: new Set(
      before?.epoch === engine.epoch ? [...before.engineIds, engine.engineId] : [engine.engineId],
    ),
  });
  for (const oldest of next.keys()) {
    if (next.size <= maxFences) break;
    next.delete(oldest);
  }
  return next;
}
