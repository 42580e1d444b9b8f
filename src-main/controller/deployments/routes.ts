import type { DeploymentId, NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Route, RouteResolution, RouteTable, RunningRequest, Upstream } from '../gateway/ports.ts';
import type { Runtime, Turn } from '../runtime/runtime.ts';
import { dialAddresses } from '../scheduler/assignments.ts';
import { deploymentStatus, leaderServes, observedEngine } from '../state/selectors.ts';
import type { ControllerState, DeploymentRecord, Replica } from '../state/state.ts';

export interface Routes extends RouteTable {
  /** Requests under way, by deployment. */
  readonly running: ReadonlyMap<DeploymentId, number>;
  /** Requests under way, of all deployments together. */
  requestsRunning(): number;
  /** Tokens generated since the start, by deployment. */
  readonly generated: ReadonlyMap<DeploymentId, number>;
  /** To be called after every turn: requests of replicas that are over are ended with the reason. */
  afterTurn(turn: Turn): void;
}

interface Running {
  readonly epoch: number;
  readonly abort: AbortController;
}

const retryAfterS = 2;

/**
 * Where requests for a model go now. Pure reading of the state, plus the book of running requests that drain
 * and unload wait for.
 * @param selfId this controller's node: engines there are reached over loopback
 */
export function createRoutes(getRuntime: () => Runtime, selfId: NodeId): Routes {
  const requests = new Map<DeploymentId, Set<Running>>();
  const counts = new Map<DeploymentId, number>();
  const generated = new Map<DeploymentId, number>();

  const begin = (id: DeploymentId, epoch: number): RunningRequest => {
    const entry: Running = { epoch, abort: new AbortController() };
    const set = requests.get(id) ?? new Set<Running>();
    requests.set(id, set.add(entry));
    counts.set(id, set.size);
    let ended = false;
    return {
      signal: entry.abort.signal,
      generated: (tokens) => void generated.set(id, (generated.get(id) ?? 0) + tokens),
      end() {
        if (ended) return;
        ended = true;
        set.delete(entry);
        if (set.size > 0) {
          counts.set(id, set.size);
          return;
        }
        counts.delete(id);
        requests.delete(id);
        // A drain may be waiting for exactly this.
        if (getRuntime().state.deployments.get(id)?.phase === 'draining') getRuntime().tick();
      },
    };
  };

  return {
    running: counts,
    requestsRunning: () => [...counts.values()].reduce((sum, count) => sum + count, 0),
    generated,
    models() {
      const { state } = getRuntime();
      return [...state.deployments.values()]
        .filter((deployment) => deployment.wanted)
        .map((deployment) => ({
          id: deployment.model,
          createdAt: deployment.createdAt,
          ready: deploymentStatus(state, deployment) === 'ready',
          contextPerRequest:
            deployment.replica?.plan.contextPerRequest ?? deployment.request.contextPerRequest ?? 0,
        }));
    },
    resolve(model): RouteResolution {
      const { state } = getRuntime();
      const wanted = [...state.deployments.values()].filter((deployment) => deployment.wanted);
      const deployment = wanted.find((candidate) => candidate.model === model || candidate.id === model);
      if (!deployment) return { kind: 'unknown', known: wanted.map((candidate) => candidate.model) };
      const { replica } = deployment;
      if (replica && deployment.phase === 'ready' && leaderServes(state, replica)) {
        const upstream = upstreamOf(state, replica, selfId);
        if (upstream) {
          const route: Route = {
            deploymentId: deployment.id,
            upstream,
            begin: () => begin(deployment.id, replica.epoch),
          };
          return { kind: 'ready', route };
        }
      }
      return { kind: 'unavailable', error: unavailable(state, deployment) };
    },
    afterTurn({ before, after }) {
      if (before.deployments === after.deployments) return;
      for (const id of before.deployments.keys()) if (!after.deployments.has(id)) generated.delete(id);
      for (const [id, set] of requests) {
        const deployment = after.deployments.get(id);
        for (const entry of set) {
          if (deployment?.wanted && deployment.replica?.epoch === entry.epoch) continue;
          entry.abort.abort(endReason(deployment));
        }
      }
    },
  };
}

function upstreamOf(state: ControllerState, replica: Replica, selfId: NodeId): Upstream | null {
  const node = state.nodes.get(replica.leader.nodeId);
  const endpoint = observedEngine(state, replica.leader)?.endpoint;
  if (!node || !endpoint?.apiKey) return null;
  if (node.durable.id === selfId) return { kind: 'local', port: endpoint.port, apiKey: endpoint.apiKey };
  return {
    kind: 'remote',
    nodeId: node.durable.id,
    addresses: dialAddresses(node, null),
    grant: endpoint.grant,
    apiKey: endpoint.apiKey,
  };
}

function unavailable(state: ControllerState, deployment: DeploymentRecord): CoveyError {
  const status = deploymentStatus(state, deployment);
  const why: Record<typeof status, string> = {
    waiting: deployment.reason?.message ?? 'it waits to be placed.',
    loading: 'it is still loading.',
    ready: 'it is being reached.',
    recovering: 'its machine is being waited for.',
    draining: deployment.reason?.message ?? 'its machine is draining.',
    unloading: 'it is being unloaded.',
    failed: deployment.reason?.message ?? 'it failed.',
  };
  const leaving = status === 'draining' && deployment.reason?.code === 'node_gave_way';
  const code = leaving ? 'node_gave_way' : status === 'draining' ? 'node_draining' : 'not_ready';
  return new CoveyError(code, `The model ${deployment.model} is not ready: ${why[status]}`, {
    retryAfterS: status === 'failed' ? 30 : retryAfterS,
  });
}

function endReason(deployment: DeploymentRecord | undefined): CoveyError {
  if (!deployment?.wanted)
    return new CoveyError('unloaded', 'The model was unloaded while this request ran.');
  const reason = deployment.reason;
  if (reason?.code === 'node_draining' || reason?.code === 'node_gave_way') {
    return new CoveyError(reason.code, `The request did not end before the deadline: ${reason.message}`);
  }
  return new CoveyError(
    'engine_lost',
    `The model was interrupted: ${reason?.message ?? 'its engine ended.'}`,
  );
}
