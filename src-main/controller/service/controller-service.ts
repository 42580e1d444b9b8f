import { jobIdSchema, nodeIdSchema, type DeploymentId, type JobId, type NodeId } from '#shared/lib/ids.ts';
import type { StatusView } from '#shared/api/schema.ts';
import { timings } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { loadModel } from '../deployments/load.ts';
import { previewLoad } from '../deployments/preview.ts';
import type { LoadContext } from '../deployments/prepare-load.ts';
import type { ControllerService } from '../gateway/ports.ts';
import { findJob } from '../jobs/job-refs.ts';
import type { Routes } from '../deployments/routes.ts';
import type { Transfers } from '../models/transfers.ts';
import type { ControllerStore } from '../state/sqlite/store.ts';
import { deploymentStatus, isEligible } from '../state/selectors.ts';
import type { DeploymentRecord } from '../state/state.ts';
import { findNode } from './node-refs.ts';
import type { LiveFeed } from './live-feed.ts';
import type { NodeHistories } from './node-history.ts';
import type { NodeLogs } from './node-logs.ts';
import { deploymentView, nodeView } from './views.ts';

export interface ServiceOptions extends LoadContext {
  readonly store: ControllerStore;
  readonly routes: Routes;
  readonly transfers: Transfers;
  readonly logs: NodeLogs;
  readonly histories: Pick<NodeHistories, 'read'>;
  readonly live: LiveFeed;
  /** The unchanging part of the status. */
  readonly about: () => Pick<
    StatusView,
    'version' | 'nodeId' | 'name' | 'startedAt' | 'engineBuildId' | 'apiAddress' | 'clusterAddress'
  >;
  /** Closes what a removed node has open, after it was recorded. */
  readonly onRemoved: (nodeId: NodeId) => void;
}

const listMs = 10_000;
const pingMs = 5_000;
const removeMs = 60_000;
const replayedEvents = 1_000;

/** The operations behind `/api`. Each checks its input against the state, records a fact and returns the view. */
export function createControllerService(options: ServiceOptions): ControllerService {
  const { runtime, clock, sessions, routes, store } = options;
  const nodeOf = (ref: string, field = 'node') => findNode(runtime.state, ref, field);
  /** Of machines that were removed there are events too: they are named by their whole id. */
  const nodeIdOf = (ref: string): NodeId => {
    const id = nodeIdSchema.safeParse(ref);
    return id.success ? id.data : nodeOf(ref).durable.id;
  };
  /** Of jobs that were removed too. */
  const jobIdOf = (ref: string): JobId => {
    const id = jobIdSchema.safeParse(ref);
    return id.success ? id.data : findJob(runtime.state, ref).definition.id;
  };
  const viewNode = (id: NodeId) => {
    const node = runtime.state.nodes.get(id);
    if (!node) throw new CoveyError('node_not_found', 'The machine was removed.', { field: 'node' });
    return nodeView(runtime.state, node);
  };
  /** By id or by the model's name, which is unique among deployments. */
  const deploymentOf = (ref: string): DeploymentRecord => {
    const all = [...runtime.state.deployments.values()];
    const found =
      runtime.state.deployments.get(ref as DeploymentId) ?? all.find((candidate) => candidate.model === ref);
    if (found) return found;
    const known = all.map((candidate) => `${candidate.id} (${candidate.model})`).join(', ');
    throw new CoveyError(
      'deployment_not_found',
      known
        ? `There is no deployment "${ref}". There are: ${known}.`
        : `There is no deployment "${ref}": nothing is loaded.`,
      { field: 'id' },
    );
  };
  const viewDeployment = (deployment: DeploymentRecord) =>
    deploymentView(runtime.state, runtime.state.deployments.get(deployment.id) ?? deployment, routes.running);

  return {
    status() {
      const { state } = runtime;
      const nodes = [...state.nodes.values()];
      const deployments = [...state.deployments.values()];
      return {
        ...options.about(),
        protocol: PROTOCOL_VERSION,
        nodes: { total: nodes.length, ready: nodes.filter(isEligible).length },
        deployments: {
          total: deployments.length,
          ready: deployments.filter((deployment) => deploymentStatus(state, deployment) === 'ready').length,
        },
        requestsRunning: routes.requestsRunning(),
      };
    },
    nodes: () => [...runtime.state.nodes.values()].map((node) => nodeView(runtime.state, node)),
    node: (ref) => nodeView(runtime.state, nodeOf(ref)),
    drain(ref, deadlineMs) {
      const { id, drain } = nodeOf(ref).durable;
      const at = clock.now();
      if (!drain || drain.completedAt === null) {
        const deadlineAt = at + (deadlineMs ?? timings.drainMs);
        runtime.commit({
          type: 'drain-started',
          at,
          nodeId: id,
          drain: { startedAt: drain?.startedAt ?? at, deadlineAt, completedAt: null },
        });
      }
      return viewNode(id);
    },
    resume(ref) {
      const { id, drain, pausedAt } = nodeOf(ref).durable;
      if (drain || pausedAt !== null) runtime.commit({ type: 'node-resumed', at: clock.now(), nodeId: id });
      return viewNode(id);
    },
    pause(ref) {
      const { id, pausedAt } = nodeOf(ref).durable;
      if (pausedAt === null) runtime.commit({ type: 'node-paused', at: clock.now(), nodeId: id });
      return viewNode(id);
    },
    renameNode(ref, name) {
      const { durable } = nodeOf(ref);
      const other = [...runtime.state.nodes.values()].find(
        (node) => node.durable.name === name && node.durable.id !== durable.id,
      );
      if (other) {
        throw new CoveyError('node_name_taken', `Another machine is called ${name}; names are unique.`, {
          field: 'name',
        });
      }
      if (name !== durable.name) {
        runtime.commit({ type: 'node-renamed', at: clock.now(), nodeId: durable.id, name });
      }
      return viewNode(durable.id);
    },
    nodeHistory: (ref) => options.histories.read(nodeOf(ref).durable.id, clock.now()),
    async ping(ref, signal) {
      const { id, name } = nodeOf(ref).durable;
      const askedAt = performance.now();
      await sessions.request(id, 'node.ping', {}, { deadlineMs: pingMs, signal });
      return { nodeId: id, nodeName: name, rttMs: performance.now() - askedAt };
    },
    removeNode(ref) {
      const { id, name } = nodeOf(ref).durable;
      // Its worker runs in this very process and would be refused for as long as the controller runs.
      if (id === options.about().nodeId) {
        throw new CoveyError(
          'invalid_request',
          `${name} is the controller's own machine: restart without --lend to take it out of the covey.`,
          { field: 'node' },
        );
      }
      runtime.commit({ type: 'node-removed', at: clock.now(), nodeId: id });
      options.onRemoved(id);
    },
    async models(signal) {
      const connected = [...runtime.state.nodes.values()].filter((node) => node.live.session !== null);
      const lists = await Promise.allSettled(
        connected.map(async ({ durable }) => {
          const { models } = await sessions.request(
            durable.id,
            'model.list',
            {},
            { deadlineMs: listMs, signal },
          );
          return models.map((model) => ({ ...model, nodeId: durable.id, nodeName: durable.name }));
        }),
      );
      return lists.flatMap((list) => (list.status === 'fulfilled' ? list.value : []));
    },
    importModel: (ref, path, name) => options.transfers.start('import', nodeOf(ref).durable.id, path, name),
    pullModel(source, ref) {
      if (ref !== undefined) return options.transfers.start('pull', nodeOf(ref).durable.id, source);
      const roomiest = [...runtime.state.nodes.values()]
        .filter(isEligible)
        .sort((a, b) => (b.live.telemetry?.diskFreeBytes ?? 0) - (a.live.telemetry?.diskFreeBytes ?? 0))[0];
      if (!roomiest) throw new CoveyError('no_nodes', 'No machine is ready to download to.');
      return options.transfers.start('pull', roomiest.durable.id, source);
    },
    async removeModel(ref, name, signal) {
      const { durable } = nodeOf(ref);
      const request = { deadlineMs: listMs, signal };
      const { models } = await sessions.request(durable.id, 'model.list', {}, request);
      const model = models.find((candidate) => candidate.name === name);
      if (!model) {
        const message = `${durable.name} has no model "${name}" in its library.`;
        throw new CoveyError('model_not_found', message, { field: 'name' });
      }
      const user = [...runtime.state.deployments.values()].find(
        (deployment) => deployment.files.get(durable.id)?.path === model.path,
      );
      if (user) {
        const message = `${name} is loaded as ${user.model} (${user.id}), which reads it on ${durable.name}: unload that first.`;
        throw new CoveyError('model_in_use', message, { field: 'name' });
      }
      await sessions.request(durable.id, 'model.remove', { name }, { deadlineMs: removeMs, signal });
      const message = `The model ${name} was removed from ${durable.name}.`;
      const nodeId = durable.id;
      runtime.dispatch({
        type: 'noted',
        at: clock.now(),
        kind: 'audit-model-removed',
        level: 'info',
        message,
        nodeId,
      });
    },
    transfers: () => options.transfers.list(),
    transfer: (id) => options.transfers.get(id),
    cancelTransfer: (id) => options.transfers.cancel(id),
    deployments: () => [...runtime.state.deployments.values()].map(viewDeployment),
    deployment: (ref) => viewDeployment(deploymentOf(ref)),
    async load(body, signal) {
      const { id, existed } = await loadModel(options, body, signal);
      return { deployment: viewDeployment(deploymentOf(id)), existed };
    },
    preview: (body, signal) => previewLoad(options, body, signal),
    unload(ref) {
      const deployment = deploymentOf(ref);
      if (deployment.wanted) {
        runtime.commit({ type: 'unload-requested', at: clock.now(), deploymentId: deployment.id });
      }
      return viewDeployment({
        ...deployment,
        wanted: false,
        phase: 'unloading',
        reason: null,
        replica: null,
      });
    },
    retry(ref) {
      const deployment = deploymentOf(ref);
      if (deployment.replica !== null || !deployment.wanted) {
        throw new CoveyError(
          'already_loaded',
          `${deployment.model} is ${deploymentStatus(runtime.state, deployment)}: there is nothing to try again.`,
          { field: 'id' },
        );
      }
      runtime.commit({
        type: 'retry-requested',
        at: clock.now(),
        deploymentId: deployment.id,
        cause: 'person',
      });
      return viewDeployment(deployment);
    },
    subscribe(lastId, listener) {
      if (lastId !== null) store.recentEvents(lastId, replayedEvents).forEach(listener);
      return runtime.onEvent(listener);
    },
    subscribeLive: (listener) => options.live.subscribe(listener),
    subscribeLogs: (listener) =>
      options.logs.subscribe((lines) =>
        listener({
          id: null,
          at: clock.now(),
          kind: 'logs',
          level: 'info',
          message: 'Log lines',
          lines: [...lines],
        }),
      ),
    eventHistory({ node, job, ...query }) {
      return store.eventPage({
        ...query,
        node: node === undefined ? undefined : nodeIdOf(node),
        job: job === undefined ? undefined : jobIdOf(job),
      });
    },
    logs({ node, limit }) {
      return options.logs.read({ nodeId: node === undefined ? undefined : nodeOf(node).durable.id, limit });
    },
  };
}
