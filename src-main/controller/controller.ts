import { join } from 'node:path';
import { networkInterfaces } from 'node:os';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type { ListenAddress } from '#shared/config.ts';
import type { StatusView } from '#shared/api/schema.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { Member, Transport } from '../nodejs/transport/transport.ts';
import { publishProgress } from './deployments/progress.ts';
import { createRoutes } from './deployments/routes.ts';
import { createGateway, type Gateway } from './gateway/gateway.ts';
import type { DialUpstream } from './gateway/ports.ts';
import { createInvites } from './joining/invites.ts';
import { createTransfers } from './models/transfers.ts';
import { beatMs, createRuntime, type Runtime } from './runtime/runtime.ts';
import { defaultPolicy } from './scheduler/policy.ts';
import { createControllerService } from './service/controller-service.ts';
import { createNodeLogs } from './service/node-logs.ts';
import { createSessionRegistry, type SessionRegistry } from './sessions/session-registry.ts';
import { openDatabase } from './state/sqlite/database.ts';
import { createStore } from './state/sqlite/store.ts';

export interface ControllerOptions {
  readonly dataDirectory: string;
  readonly nodeId: NodeId;
  readonly name: string;
  readonly version: string;
  readonly api: ListenAddress;
  /** Where members' `/v1` arrives from the transport process; a unix socket or named pipe. */
  readonly gatewaySocket: string;
  /** Opens the cluster port with these members; the controller closes it. */
  readonly openTransport: (members: readonly Member[]) => Promise<Transport>;
  readonly dialUpstream: DialUpstream;
  /** The engine build of this machine, for comparison; a controller needs none itself. */
  readonly engineBuildId: StatusView['engineBuildId'];
  readonly logger: Logger;
  readonly clock: Clock;
}

export interface Controller {
  readonly apiAddress: string;
  readonly transport: Transport;
  readonly sessions: SessionRegistry;
  readonly runtime: Runtime;
  /** Makes the controller's own machine a member, for `--lend`. */
  admitSelf(name: string): void;
  /** Ends the API, the sessions, the cluster port and the database, in this order. */
  close(): Promise<void>;
}

/** Composition root of the controller role. */
export async function createController(options: ControllerOptions): Promise<Controller> {
  const { clock, logger } = options;
  const store = createStore(openDatabase(join(options.dataDirectory, 'covey.db')));
  const routes = createRoutes(() => runtime, options.nodeId);
  const runtime: Runtime = createRuntime({
    store,
    clock,
    policy: defaultPolicy,
    logger: logger.child({ part: 'runtime' }),
    running: () => routes.running,
  });
  runtime.onTurn((turn) => routes.afterTurn(turn));
  publishProgress(runtime);
  const timer = setInterval(() => runtime.beat(), beatMs);
  const closers: Array<() => Promise<void> | void> = [
    () => {
      clearInterval(timer);
      runtime.stop();
      store.close();
    },
  ];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  const open = async (): Promise<Controller> => {
    const transport = await options.openTransport(membersOf(runtime, options.nodeId));
    closers.push(() => transport.close());

    const logs = createNodeLogs();
    const sessions = createSessionRegistry({
      runtime,
      clock,
      logger: logger.child({ part: 'sessions' }),
      controllerName: options.name,
      onLog(nodeId, frame) {
        const nodeName = runtime.state.nodes.get(nodeId)?.durable.name ?? nodeId.slice(0, 12);
        for (const line of frame.lines) logs.add({ ...line, nodeId, nodeName });
        if (frame.dropped > 0) {
          const message = `${frame.dropped} lines were left out by the rate limit`;
          logs.add({ at: clock.now(), nodeId, nodeName, level: 'warn', source: 'log', message });
        }
      },
    });

    const invites = createInvites({
      store,
      runtime,
      clock,
      controllerId: options.nodeId,
      controllerName: options.name,
      addresses: () => clusterAddresses(transport.clusterAddress),
    });

    const pushMembers = (): void => transport.setMembers(membersOf(runtime, options.nodeId));
    runtime.onTurn(({ before, after }) => {
      if (before.nodes.size !== after.nodes.size || before.removedNodes !== after.removedNodes) pushMembers();
    });
    transport.onSession((session) => sessions.accept(session));
    transport.onJoin(async (attempt) => invites.admit(attempt));
    transport.onAudit((event) =>
      logger.warn('refused at the cluster port', {
        kind: event.kind,
        from: event.remoteAddress,
        node: event.peerId?.slice(0, 12),
        detail: event.detail,
      }),
    );
    closers.push(() => sessions.closeAll());

    const startedAt = clock.now();
    const clusterAddress = transport.clusterAddress;
    const gatewayHolder: { gateway?: Gateway } = {};
    const service = createControllerService({
      runtime,
      sessions,
      clock,
      policy: defaultPolicy,
      store,
      routes,
      invites,
      transfers: createTransfers(sessions),
      logs,
      about: () => ({
        version: options.version,
        nodeId: options.nodeId,
        name: options.name,
        startedAt,
        engineBuildId: options.engineBuildId,
        apiAddress: gatewayHolder.gateway?.apiAddress ?? '',
        clusterAddress: clusterAddress && `${clusterAddress.host}:${clusterAddress.port}`,
      }),
      onRemoved: (nodeId) => sessions.close(nodeId),
    });

    const gateway = await createGateway({
      listen: options.api,
      memberSocketPath: options.gatewaySocket,
      routes,
      service,
      dialUpstream: options.dialUpstream,
      logger: logger.child({ part: 'gateway' }),
    });
    closers.push(() => gateway.close());
    gatewayHolder.gateway = gateway;

    return {
      apiAddress: gateway.apiAddress,
      transport,
      sessions,
      runtime,
      admitSelf(name) {
        if (!runtime.state.nodes.has(options.nodeId)) {
          runtime.commit({ type: 'node-joined', at: clock.now(), nodeId: options.nodeId, name });
        }
      },
      close,
    };
  };
  try {
    return await open();
  } catch (error) {
    await close();
    throw error;
  }
}

/** The keys that may speak to the cluster port; our own never comes from outside. */
function membersOf(runtime: Runtime, selfId: NodeId): Member[] {
  const { nodes, removedNodes } = runtime.state;
  const others = [...nodes.values()].filter(({ durable }) => durable.id !== selfId);
  const members: Member[] = others.map(({ durable }) => ({
    nodeId: durable.id,
    role: 'worker',
    name: durable.name,
  }));
  for (const removed of removedNodes.values()) {
    members.push({
      nodeId: removed.id,
      role: 'worker',
      name: removed.name,
      refusal: {
        code: 'node_removed',
        message: 'This machine was removed from the covey. Join again with a new join string.',
      },
    });
  }
  return members;
}

/** Where other machines can dial: the bound address, or every address of this machine when bound to all. */
function clusterAddresses(bound: Address | null): Address[] {
  if (!bound) return [];
  if (bound.host !== '0.0.0.0' && bound.host !== '::') return [bound];
  const all = Object.entries(networkInterfaces()).flatMap(([name, entries]) =>
    (entries ?? []).map((entry) => ({ name, entry })),
  );
  // Containers' and VPNs' adapters are reachable from few machines: last, before loopback.
  const rank = ({ name, entry }: (typeof all)[number]): number =>
    (entry.internal ? 8 : 0) +
    (/^(?:docker|br-|veth|virbr|vmnet|tun|tap|wg|utun|zt|tailscale)/.test(name) ? 4 : 0) +
    (entry.family === 'IPv6' ? 1 : 0);
  return all
    .filter(({ entry }) => !(entry.family === 'IPv6' && entry.address.startsWith('fe80')))
    .filter(({ entry }) => bound.host === '::' || entry.family === 'IPv4')
    .sort((a, b) => rank(a) - rank(b))
    .map(({ entry }) => ({ host: entry.address, port: bound.port }))
    .slice(0, 16);
}
