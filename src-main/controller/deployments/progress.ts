import type { DeploymentId } from '#shared/lib/ids.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { observedEngine, replicaMembers } from '../state/selectors.ts';

const minimumGapMs = 250;

/** Publishes `load-progress` for every loading deployment whose engines moved on, at most 4 times a second. */
export function publishProgress(runtime: Runtime): void {
  const sent = new Map<DeploymentId, { at: number; text: string }>();
  runtime.onTurn(({ before, after, events }) => {
    const at = events.at(-1)?.at;
    if (at === undefined || before.nodes === after.nodes) return;
    for (const id of sent.keys()) if (after.deployments.get(id)?.phase !== 'loading') sent.delete(id);
    for (const deployment of after.deployments.values()) {
      const { replica } = deployment;
      if (deployment.phase !== 'loading' || !replica) continue;
      const stages = replicaMembers(replica).map((member) => {
        const engine = observedEngine(after, member);
        return {
          engineId: member.engineId,
          nodeName: after.nodes.get(member.nodeId)?.durable.name ?? member.nodeId.slice(0, 12),
          phase: engine?.phase ?? null,
          progress: engine?.progress ?? null,
        };
      });
      const text = JSON.stringify(stages);
      const last = sent.get(deployment.id);
      if (last && (last.text === text || at - last.at < minimumGapMs)) continue;
      sent.set(deployment.id, { at, text });
      const leader = stages[0]?.progress;
      const percent =
        leader?.percent === null || leader?.percent === undefined ? '' : ` ${Math.floor(leader.percent)}%`;
      runtime.publish({
        id: null,
        at,
        kind: 'load-progress',
        level: 'info',
        message: `${deployment.model}: ${leader?.step ?? 'starting engines'}${percent}`,
        deploymentId: deployment.id,
        stages,
      });
    }
  });
}
