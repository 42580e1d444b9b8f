import { randomBytes } from 'node:crypto';
import type { DeploymentId } from '#shared/lib/ids.ts';
import type { LoadBody } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { newReplica, planPlacement } from '../scheduler/placing.ts';
import type { ControllerState, DeploymentRecord } from '../state/state.ts';
import { nameConflict, prepareLoad, type LoadContext } from './prepare-load.ts';

export interface LoadResult {
  readonly id: DeploymentId;
  readonly existed: boolean;
}

/**
 * Accepts a wish to load a model, or refuses it with nothing left behind:
 * 1. names become nodes, shares are checked, the machines are asked for the file (`prepareLoad`);
 * 2. the same model with equal arguments is the deployment that exists, with others `already_loaded`;
 * 3. a placement is planned; what cannot fit is refused with the reasons;
 * 4. deployment and first replica are recorded together.
 */
export async function loadModel(
  context: LoadContext,
  body: LoadBody,
  signal: AbortSignal,
): Promise<LoadResult> {
  const { runtime, clock, policy } = context;
  // 1.
  const wanted = await prepareLoad(context, body, signal);
  // From here on synchronous: nobody can come between the check and the record.
  // 2.
  const conflict = nameConflict(runtime.state, wanted);
  if (conflict?.kind === 'same') return { id: conflict.deployment.id, existed: true };
  if (conflict) throw conflict.error;
  // 3.
  const at = clock.now();
  const deployment: DeploymentRecord = {
    id: newDeploymentId(runtime.state),
    model: wanted.name,
    info: wanted.info,
    files: wanted.files,
    request: wanted.request,
    createdAt: at,
    wanted: true,
    phase: 'waiting',
    reason: null,
    epoch: 0,
    replica: null,
    failures: [],
    nextAttemptAt: null,
    failedWith: [],
  };
  const placing = planPlacement(runtime.state, deployment, policy);
  if (!placing.ok) throw CoveyError.fromBody(placing.error);
  // 4.
  runtime.commit(
    { type: 'deployment-created', at, deployment },
    {
      type: 'replica-placed',
      at,
      deploymentId: deployment.id,
      replica: newReplica(runtime.state, deployment, placing.plan, at),
    },
  );
  return { id: deployment.id, existed: false };
}

function newDeploymentId(state: ControllerState): DeploymentId {
  for (;;) {
    const id = `d-${BigInt(`0x${randomBytes(8).toString('hex')}`)
      .toString(36)
      .padStart(13, '0')
      .slice(-8)}` as DeploymentId;
    if (!state.deployments.has(id)) return id;
  }
}
