import type { Preview, PreviewStage } from '#shared/api/dashboard.ts';
import type { LoadBody } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { ReplicaPlan } from '../placement/types.ts';
import { availableTo, planPlacement, planRegardlessOfMemory } from '../scheduler/placing.ts';
import type { Policy } from '../scheduler/policy.ts';
import type { ControllerState } from '../state/state.ts';
import { nameConflict, prepareLoad, type LoadContext, type WantedLoad } from './prepare-load.ts';

/**
 * What `loadModel` would do with the same body now; nothing is recorded. Whatever it would refuse with is in
 * `error`; only `cancelled` is thrown.
 */
export async function previewLoad(
  context: LoadContext,
  body: LoadBody,
  signal: AbortSignal,
): Promise<Preview> {
  try {
    const wanted = await prepareLoad(context, body, signal);
    return previewOf(context.runtime.state, wanted, context.policy);
  } catch (thrown) {
    if (!(thrown instanceof CoveyError) || thrown.code === 'cancelled') throw thrown;
    return refused(thrown, null, []);
  }
}

/**
 * 1. Equal to what is loaded: that, as it lies.
 * 2. The plan; where memory is missing, the split that would be made if it were there.
 */
function previewOf(state: ControllerState, wanted: WantedLoad, policy: Policy): Preview {
  // 1.
  const conflict = nameConflict(state, wanted);
  const loaded = conflict?.kind === 'same' ? conflict.deployment.replica?.plan : undefined;
  if (loaded) return accepted(loaded, stagesOf(state, loaded, policy));
  // 2.
  const placing = planPlacement(state, wanted, policy);
  const plan = placing.ok ? placing.plan : planRegardlessOfMemory(state, wanted, placing.error, policy);
  const stages = plan ? stagesOf(state, plan, policy) : [];
  if (conflict?.kind === 'other') return refused(conflict.error, plan, stages);
  return placing.ok
    ? accepted(placing.plan, stages)
    : refused(CoveyError.fromBody(placing.error), plan, stages);
}

function accepted(plan: ReplicaPlan, stages: PreviewStage[]): Preview {
  const { layersTotal, contextPerRequest, parallel } = plan;
  return { ok: true, layersTotal, contextPerRequest, parallel, stages, error: null };
}

function refused(error: CoveyError, plan: ReplicaPlan | null, stages: PreviewStage[]): Preview {
  return {
    ok: false,
    layersTotal: plan?.layersTotal ?? null,
    contextPerRequest: plan?.contextPerRequest ?? null,
    parallel: plan?.parallel ?? null,
    stages,
    error: error.toBody(),
  };
}

/** Leader first, then the stages in pipeline order. */
function stagesOf(state: ControllerState, plan: ReplicaPlan, policy: Policy): PreviewStage[] {
  const { leader, engine } = plan;
  const line = (
    nodeId: NodeId,
    role: PreviewStage['role'],
    devices: readonly string[],
    layers: number,
    neededBytes: number,
  ): PreviewStage => ({
    nodeId,
    nodeName: state.nodes.get(nodeId)?.durable.name ?? nodeId.slice(0, 12),
    role,
    device: devices.join(', '),
    layers,
    percent: (layers / plan.layersTotal) * 100,
    neededBytes,
    availableBytes: availableTo(state, nodeId, devices, policy),
  });
  return [
    // Whatever else it has, a leader keeps the embeddings in its RAM.
    line(leader.nodeId, 'leader', ['CPU', ...engine.localDevices], leader.localLayers, leader.estimatedBytes),
    ...plan.stages.map((stage) =>
      line(stage.nodeId, 'stage', [stage.device], stage.layers, stage.estimatedBytes),
    ),
  ];
}
