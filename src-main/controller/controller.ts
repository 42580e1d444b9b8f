import type { LendState } from '#shared/domain/lend.ts';
import { join } from 'node:path';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import type { ListenAddress } from '#shared/config.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { LocalAccess } from '../nodejs/access/local-access.ts';
import type { Discovery } from '../nodejs/discovery/discovery.ts';
import { announceNode } from '../nodejs/discovery/announce-node.ts';
import { createDiscoveryView } from '../nodejs/discovery/view.ts';
import type { DoctorContext } from '../nodejs/doctor/context.ts';
import { dialAddresses } from '../nodejs/own-addresses.ts';
import type { SelfPort } from '../nodejs/self-port.ts';
import { createSettingsPort } from '../nodejs/settings/settings-port.ts';
import type { SettingsStore } from '../nodejs/settings/settings-store.ts';
import type { Member, Transport, TransportAudit } from '../nodejs/transport/transport.ts';
import type { Hasher } from '../nodejs/artifacts/hasher.ts';
import type { ArtifactStore } from '../nodejs/artifacts/store.ts';
import { createAccess } from './access/access.ts';
import { createArtifactService } from './artifacts/artifact-service.ts';
import { publishProgress } from './deployments/progress.ts';
import { createLeaderDialer } from './deployments/reach-leader.ts';
import { createRoutes } from './deployments/routes.ts';
import { createControllerDoctor } from './doctor/controller-doctor.ts';
import { createLinks } from './doctor/links.ts';
import { artifactRoutesGroup } from './gateway/api/artifact-routes.ts';
import { jobRoutesGroup } from './gateway/api/job-routes.ts';
import { joiningRoutesGroup } from './gateway/api/joining-routes.ts';
import { createGateway, type Gateway } from './gateway/gateway.ts';
import type { DialUpstream } from './gateway/ports.ts';
import { createCollector } from './jobs/collector.ts';
import { jobArtifacts } from './jobs/job-artifacts.ts';
import { createJobService } from './jobs/job-service.ts';
import { createJoining } from './joining/joining.ts';
import { membersOf } from './members.ts';
import { createTransfers } from './models/transfers.ts';
import { beatMs, createRuntime, type Runtime } from './runtime/runtime.ts';
import { defaultPolicy } from './scheduler/policy.ts';
import { createControllerSelf, type OwnEngine } from './self.ts';
import { createControllerService } from './service/controller-service.ts';
import { createLiveFeed } from './service/live-feed.ts';
import { createNodeHistories } from './service/node-history.ts';
import { createNodeLogs } from './service/node-logs.ts';
import { createDialBacks } from './sessions/dial-backs.ts';
import { createSessionRegistry, type SessionRegistry } from './sessions/session-registry.ts';
import type { NotedKind } from './state/events.ts';
import { createAccessStore } from './state/sqlite/access-store.ts';
import { createArtifactRecordStore } from './state/sqlite/artifact-store.ts';
import { openDatabase } from './state/sqlite/database.ts';
import { createJoiningStore } from './state/sqlite/joining-store.ts';
import { createStore } from './state/sqlite/store.ts';

export interface ControllerOptions {
  readonly dataDirectory: string;
  readonly nodeId: NodeId;
  readonly bootId: BootId;
  readonly name: string;
  readonly version: string;
  readonly api: ListenAddress;
  /** Where members' requests arrive from the transport process; a unix socket or named pipe. */
  readonly gatewaySocket: string;
  /** Opens the cluster port with these members; the controller closes it. */
  readonly openTransport: (members: readonly Member[]) => Promise<Transport>;
  /** Dials the llama-server of a leader on another machine. */
  readonly dialUpstream: DialUpstream;
  /** null: this machine is neither announced nor does it listen for others. Owned by the caller. */
  readonly discovery: Discovery | null;
  readonly settings: SettingsStore;
  readonly local: LocalAccess;
  readonly engine: OwnEngine;
  /** Open; the store is in the data directory. */
  readonly artifacts: { readonly store: ArtifactStore; readonly hasher: Hasher };
  /** What this machine itself has noticed, a copy of its identity for instance. */
  readonly notices: () => readonly ErrorBody[];
  /** Whether this machine is lent now; null: it has no worker. */
  readonly lend: () => LendState | null;
  /** Rules of lending that its system cannot sense. */
  readonly unavailableRules: () => Promise<LendState['unavailable']>;
  readonly logger: Logger;
  readonly clock: Clock;
}

export interface Controller {
  readonly apiAddress: string;
  readonly transport: Transport;
  readonly sessions: SessionRegistry;
  readonly runtime: Runtime;
  /** What `/api` tells and does about this machine itself. */
  readonly self: SelfPort;
  /** Room in the store of artifacts, for the worker in the same process; see `ArtifactService`. */
  artifactRoom(bytes: number): Promise<() => void>;
  /** For the event list. */
  note(kind: NotedKind, level: 'info' | 'warn' | 'error', message: string): void;
  /** For the doctor of the worker in the same process. */
  doctorContext(): DoctorContext;
  /** Makes the controller's own machine a member, for `--lend`. */
  admitSelf(name: string): void;
  /** The controller's own machine is no member any more: it does not lend itself this time. */
  withdrawSelf(): void;
  /** Ends the API, the sessions, the cluster port and the database, in this order. */
  close(): Promise<void>;
}

/** How often this machine's own addresses are looked at. */
const addressesEveryMs = 2_000;

/** Composition root of the controller role. */
export async function createController(options: ControllerOptions): Promise<Controller> {
  const { clock, logger, nodeId, discovery, settings } = options;
  const connection = openDatabase(join(options.dataDirectory, 'covey.db'));
  const store = createStore(connection);
  const routes = createRoutes(() => runtime, nodeId);
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
  const note: Controller['note'] = (kind, level, message) =>
    runtime.dispatch({ type: 'noted', at: clock.now(), kind, level, message });

  const open = async (): Promise<Controller> => {
    const transport = await options.openTransport(membersOf(runtime.state, nodeId));
    closers.push(() => transport.close());
    const addresses = () => dialAddresses(transport.clusterAddress);

    const joining = await createJoining({
      store: createJoiningStore(connection),
      runtime,
      clock,
      logger: logger.child({ part: 'joining' }),
      controllerId: nodeId,
      controllerName: options.name,
      addresses,
      dataDirectory: options.dataDirectory,
    });
    closers.push(() => joining.close());

    const logs = createNodeLogs();
    const histories = createNodeHistories();
    runtime.onTurn(({ events }) => {
      for (const event of events) {
        if (event.type === 'heartbeat-received') histories.record(event.nodeId, event.at, event.telemetry);
        else if (event.type === 'node-removed') histories.forget(event.nodeId);
      }
    });
    const sessions = createSessionRegistry({
      runtime,
      clock,
      logger: logger.child({ part: 'sessions' }),
      controllerName: options.name,
      controllerVersion: options.version,
      onLog(from, frame) {
        const nodeName = runtime.state.nodes.get(from)?.durable.name ?? from.slice(0, 12);
        for (const line of frame.lines) logs.add({ ...line, nodeId: from, nodeName });
        if (frame.dropped > 0) {
          const message = `${frame.dropped} lines were left out by the rate limit`;
          logs.add({ at: clock.now(), nodeId: from, nodeName, level: 'warn', source: 'log', message });
        }
      },
      onDialRequest: (from, frame) => dialBacks.onDialRequest(from, frame),
      onArtifacts(from, frame) {
        if (frame.type === 'artifact-wanted') artifacts.onWanted(from, frame);
        else artifacts.onHeld(from, frame);
      },
      onGone: (gone) => artifacts.onGone(gone),
      greet: () => [
        { type: 'controller-addresses', addresses: addresses() },
        { type: 'cluster-secret', secret: joining.clusterSecret() },
      ],
    });
    const artifacts = createArtifactService({
      ...options.artifacts,
      records: createArtifactRecordStore(connection),
      transport,
      self: { nodeId, name: options.name, addresses },
      send: (to, frame) => sessions.send(to, frame),
      broadcast: (frame) => sessions.broadcast(frame),
      member(id) {
        const node = runtime.state.nodes.get(id);
        if (!node?.live.session) return null;
        return { name: node.durable.name, addresses: node.durable.facts?.addresses ?? [] };
      },
      rttMs: (from, to) => links.latest(from, to)?.rttMs ?? null,
      quotaBytes: () => settings.current.artifacts.quotaBytes,
      job(jobId) {
        const job = runtime.state.jobs.get(jobId);
        return job ? jobArtifacts(job) : null;
      },
      clock,
      logger: logger.child({ part: 'artifacts' }),
    });
    closers.push(() => artifacts.close());
    const dialBacks = createDialBacks({
      runtime,
      sessions,
      transport,
      selfId: nodeId,
      selfName: options.name,
      addresses,
      clock,
    });
    transport.onDialRequest((request) => dialBacks.requestFromController(request));

    runtime.onTurn(({ before, after, events }) => {
      const named = events.some((event) => event.type === 'node-renamed');
      if (named || before.nodes.size !== after.nodes.size || before.removedNodes !== after.removedNodes) {
        transport.setMembers(membersOf(runtime.state, nodeId));
      }
    });
    transport.onSession((session) => sessions.accept(session));
    transport.onJoin((conversation) => joining.accept(conversation));
    transport.onAudit((audit) => {
      note('security-refused', 'warn', sentenceOf(audit));
      logger.warn('refused at the cluster port', { kind: audit.kind, from: audit.remoteAddress });
    });
    closers.push(() => sessions.closeAll());

    const announce = (): void => {
      if (!discovery) return;
      announceNode(discovery, {
        role: 'controller',
        nodeId,
        bootId: options.bootId,
        name: options.name,
        version: options.version,
        clusterAddress: transport.clusterAddress,
        clusterSecret: joining.clusterSecret(),
      });
    };
    announce();
    joining.onClusterSecret((secret) => {
      announce();
      sessions.broadcast({ type: 'cluster-secret', secret });
    });
    closers.push(
      watch(
        () => JSON.stringify(addresses()),
        () => {
          sessions.broadcast({ type: 'controller-addresses', addresses: addresses() });
          const hosts = addresses().map(({ host }) => host);
          note('network-address-changed', 'info', `The controller is at ${hosts.join(', ')} now.`);
        },
      ),
    );

    const access = createAccess({
      store: createAccessStore(connection),
      local: options.local,
      settings: () => settings.current,
      clock,
      note,
    });
    closers.push(() => access.close());
    const gatewayHolder: { gateway?: Gateway } = {};
    const settingsPort = createSettingsPort({
      store: settings,
      lan: () => gatewayHolder.gateway?.lan ?? null,
      onChanged: (sentence) => note('audit-setting-changed', 'info', sentence),
    });
    const links = createLinks({
      runtime,
      sessions,
      transport,
      expectProbe: (from, to, ttlMs) => dialBacks.expectProbe(from, to, ttlMs),
      self: { nodeId, name: options.name },
      clock,
      requestsRunning: () => routes.requestsRunning(),
    });
    links.start();
    closers.push(() => links.close());
    const self = createControllerSelf({
      ...options,
      runtime,
      transport,
      look:
        discovery &&
        createDiscoveryView({
          discovery,
          transport,
          selfId: nodeId,
          clock,
          membership: () => ({ controllerId: nodeId, memberIds: [...runtime.state.nodes.keys()] }),
          clusterSecret: () => joining.clusterSecret(),
        }),
      settings: settingsPort,
      logins: { code: () => access.loginCode(), redeem: (code, caller) => access.redeem(code, caller) },
      lan: () => gatewayHolder.gateway?.lan ?? null,
      doctor: (signal) => doctor(signal),
      apiAddress: () => gatewayHolder.gateway?.apiAddress ?? '',
    });
    const doctor = createControllerDoctor({
      self: { nodeId, name: options.name, version: options.version },
      runtime,
      sessions,
      transport,
      links,
      context: async () => self.doctorContext(),
      clock,
    });

    const startedAt = clock.now();
    const clusterAddress = transport.clusterAddress;
    const transfers = createTransfers(sessions, (transfer, error) => {
      const machine = runtime.state.nodes.get(transfer.nodeId)?.durable.name ?? transfer.nodeId.slice(0, 12);
      const what = transfer.kind === 'pull' ? 'Download' : 'Import';
      // An address or path can fill a screen.
      const source = transfer.source.length > 200 ? `${transfer.source.slice(0, 200)} ...` : transfer.source;
      const reason = error.message.length > 500 ? `... ${error.message.slice(-500)}` : error.message;
      runtime.dispatch({
        type: 'noted',
        at: clock.now(),
        kind: 'transfer-failed',
        level: 'warn',
        message: `${what} of ${source} to ${machine} failed: ${reason.replace(/[^.!?]$/, '$&.')}`,
        nodeId: transfer.nodeId,
      });
    });
    const service = createControllerService({
      runtime,
      sessions,
      clock,
      policy: defaultPolicy,
      store,
      routes,
      transfers,
      logs,
      histories,
      live: createLiveFeed({
        state: () => runtime.state,
        running: routes.running,
        generated: routes.generated,
        transfers: () => transfers.list(),
        clock,
      }),
      about: () => ({
        version: options.version,
        nodeId,
        name: options.name,
        startedAt,
        engineBuildId:
          options.engine.directory === null
            ? { known: false, reason: options.engine.reason }
            : { known: true, value: options.engine.buildId },
        apiAddress: gatewayHolder.gateway?.apiAddress ?? '',
        clusterAddress: clusterAddress && `${clusterAddress.host}:${clusterAddress.port}`,
      }),
      onRemoved(removed) {
        sessions.close(removed);
        void joining.onNodeRemoved();
      },
    });

    const collector = createCollector({
      runtime,
      store: store.jobs,
      artifacts,
      clock,
      logger: logger.child({ part: 'jobs' }),
    });
    collector.start();
    closers.push(() => collector.close());
    const jobs = createJobService({
      runtime,
      store: store.jobs,
      sessions,
      artifacts,
      models: () => routes.models().map(({ id }) => id),
      clock,
    });

    const gateway = await createGateway({
      listen: options.api,
      memberSocketPath: options.gatewaySocket,
      dataDirectory: options.dataDirectory,
      routes,
      service,
      dialUpstream: createLeaderDialer({
        direct: options.dialUpstream,
        transport,
        nameOf: (id) => runtime.state.nodes.get(id)?.durable.name ?? `machine ${id.slice(0, 12)}`,
        isConnected: (id) => runtime.state.nodes.get(id)?.live.session != null,
        now: () => performance.now(),
      }),
      access,
      settings,
      self: self.port,
      joining: joiningRoutesGroup(joining),
      jobs: jobRoutesGroup(jobs),
      artifacts: artifactRoutesGroup(artifacts, jobs),
      links,
      note,
      clock,
      logger: logger.child({ part: 'gateway' }),
    });
    closers.push(() => gateway.close());
    gatewayHolder.gateway = gateway;

    return {
      apiAddress: gateway.apiAddress,
      transport,
      sessions,
      runtime,
      self: self.port,
      note,
      artifactRoom: (bytes) => artifacts.room(bytes),
      doctorContext: () => self.doctorContext(),
      admitSelf(name) {
        if (!runtime.state.nodes.has(nodeId)) {
          runtime.commit({ type: 'node-joined', at: clock.now(), nodeId, name });
        }
      },
      withdrawSelf() {
        if (runtime.state.nodes.has(nodeId)) {
          runtime.dispatch({ type: 'node-removed', at: clock.now(), nodeId });
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

/** A refusal at the cluster port, for people. */
function sentenceOf({ remoteAddress, peerId, detail }: TransportAudit): string {
  const who = peerId ? `${remoteAddress} (key ${peerId.slice(0, 12)})` : remoteAddress;
  return `Refused at the cluster port: ${who}: ${detail.replace(/\.$/, '')}.`;
}

/** Calls `changed` when what `look` returns is not what it was. Returns what ends it. */
function watch(look: () => string, changed: () => void): () => void {
  let last = look();
  const timer = setInterval(() => {
    const now = look();
    if (now === last) return;
    last = now;
    changed();
  }, addressesEveryMs);
  return () => clearInterval(timer);
}
