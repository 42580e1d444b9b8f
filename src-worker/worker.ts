import { join } from 'node:path';
import { timings } from '#shared/config.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { Hardware, Telemetry } from '#shared/domain/node.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import type { ProcessHost } from '../src-main/nodejs/process-host/process-host.ts';
import type { PeerSession, Transport } from '../src-main/nodejs/transport/transport.ts';
import { createArtifactCache, type ArtifactCacheOptions } from './artifacts/artifact-cache.ts';
import { lentToModels } from './lend/decide.ts';
import type { LendPort } from './lend/lend-monitor.ts';
import { withinLimits } from './lend/limits.ts';
import { createMachineProbe } from './probe/machine-probe.ts';
import { watchOwnAddresses } from './runtime/address-watch.ts';
import { createAgentRuntime } from './runtime/agent-runtime.ts';
import { watchCardLimits } from './runtime/card-limits.ts';
import type { ControllerWays } from './runtime/controller-addresses.ts';
import { createLogForwarder } from './runtime/log-forwarder.ts';
import { createRequestServer, type RequestHandlers, type RequestServer } from './runtime/requests.ts';
import { createSessionClient, type SessionFrame } from './runtime/session-client.ts';
import { throttled } from './runtime/throttle.ts';
import type { DialGateway } from './tasks/inference/gateway-client.ts';
import { createTaskRuntime } from './tasks/task-runtime.ts';
import type { WorkerEngine } from './worker-engine.ts';

export interface WorkerOptions {
  /** Exists, mode 0700; this worker writes `journal/` in it. */
  readonly dataDirectory: string;
  readonly name: string;
  /** Of the program, for people. */
  readonly version: string;
  /** Of this run of the program: another one has lost what this one ran. */
  readonly bootId: BootId;
  readonly engine: WorkerEngine;
  readonly processHost: ProcessHost;
  /** Owned by the caller, who closes it after the worker. */
  readonly transport: Transport;
  readonly controller: ControllerLink;
  readonly handlers: Omit<RequestHandlers, 'task.log'>;
  /** A way to `/v1` of the controller, for tasks that ask a served model. */
  readonly dialGateway: DialGateway;
  /** The wishes of this machine's owner. */
  readonly lend: LendPort;
  /** This machine's artifacts; `shared`: the controller in this process keeps its own there too. */
  readonly artifacts: Pick<ArtifactCacheOptions, 'store' | 'hasher' | 'shared' | 'disk'>;
  /** What the controller says to this node as a whole. */
  readonly onClusterSecret: (secret: string | null) => void;
  readonly onNotice: (notice: ErrorBody) => void;
  /** The name by which the covey knows this node, at the start of each session and when it has got another. */
  readonly onName: (name: string) => void;
  /** See `helloFrame.machine`. */
  readonly machine: string | null;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * The way to the controller. `remote`: dialled over the cluster port by its pinned key; the members it names are
 * then the only keys that our own port knows. `local`: it lives in this process and manages the port itself.
 */
export type ControllerLink =
  | { readonly kind: 'remote'; readonly nodeId: NodeId; readonly ways: ControllerWays }
  | { readonly kind: 'local'; readonly nodeId: NodeId; readonly connect: () => PeerSession };

export interface WorkerStatus {
  readonly connected: boolean;
  readonly controllerName: string | null;
  /** What the controller runs, as it last said; null: it never has. */
  readonly controllerVersion: string | null;
  /** Why there is no session. */
  readonly trouble: ErrorBody | null;
  /** As this machine was last looked at. */
  readonly hardware: Hardware | null;
  /** What it computes for others. */
  readonly compute: ComputeFacts;
  /** How far this machine's clock is ahead of the controller's when it last answered; negative: behind. */
  readonly clockAheadMs: number | null;
  /** The other members, as the controller has named them last. */
  readonly memberIds: readonly NodeId[];
  /** Without the rights to reach them. */
  readonly engines: readonly Omit<EngineObservation, 'endpoint'>[];
}

export interface Worker {
  status(): WorkerStatus;
  /** Says goodbye, ends every engine, and resolves when they are gone (about 8 s at most). */
  close(): Promise<void>;
}

const reportEveryMs = 250;
const logEveryMs = 1_000;
/** Waiting this long for a link to explain a leader's death beats blaming the leader. */
const evidenceMs = 1_000;

/**
 * The worker role: keeps a session to the controller and runs what it assigns. What an earlier run left behind has been
 * ended before. Resolves when it has begun; whether a session comes about shows in `status`.
 */
export async function createWorker(options: WorkerOptions): Promise<Worker> {
  const { controller, transport, clock, lend } = options;
  const journalDirectory = join(options.dataDirectory, 'journal');
  const forwarder = createLogForwarder(options.logger, () => clock.now());
  const { logger } = forwarder;

  const probe = createMachineProbe({
    dataDirectory: options.dataDirectory,
    engine: options.engine,
    transport,
  });
  let memberIds: readonly NodeId[] = [];
  const setMembers = (members: readonly { readonly nodeId: NodeId; readonly name: string }[]): void => {
    memberIds = members.map(({ nodeId }) => nodeId);
    if (controller.kind === 'local') return;
    transport.setMembers([
      { nodeId: controller.nodeId, role: 'controller', name: 'controller' },
      ...members.map(({ nodeId, name }) => ({ nodeId, role: 'worker' as const, name })),
    ]);
  };
  setMembers([]);

  let requests: RequestServer | null = null;
  let clockAheadMs: number | null = null;
  let controllerVersion: string | null = null;
  const report = throttled(() => {
    session.send({ type: 'observed', generation: agent.generation, engines: agent.observed() });
  }, reportEveryMs);
  const agent = createAgentRuntime({
    config: {
      controllerId: controller.nodeId,
      physicalCores: probe.cores.physical,
      stopGraceMs: timings.stopGraceMs,
      stageStartMs: timings.stageStartMs,
      canaryMs: timings.canaryMs,
      evidenceMs,
      giveWayMs: timings.giveWayMs,
    },
    journalDirectory,
    engine: options.engine,
    processHost: options.processHost,
    transport,
    logger,
    clock,
    onReport: () => report.call(),
  });

  const artifacts = await createArtifactCache({
    ...options.artifacts,
    transport,
    send: (frame) => session.send(frame),
    clock,
    logger,
  });

  const tasks = await createTaskRuntime({
    dataDirectory: options.dataDirectory,
    engineDirectory: options.engine.directory,
    isController: controller.kind === 'local',
    processHost: options.processHost,
    cache: artifacts,
    dialGateway: options.dialGateway,
    lend,
    send: (reports) => session.send({ type: 'tasks', reports: [...reports] }),
    onFacts: (compute) => void session.send({ type: 'compute', compute }),
    logger,
    clock,
    random: Math.random,
  });

  /** What the covey may count on here. */
  const lentTelemetry = (): Telemetry => withinLimits(probe.sample(), lend.rules().limits, agent.used());
  const tellLend = (): void => {
    const { cpuThreads, ramBytes, vramBytes } = lend.rules().limits;
    agent.dispatch({ type: 'lend', ...lentToModels(lend.state()), cpuThreads, ramBytes, vramBytes });
  };
  tellLend();

  const receive = (frame: SessionFrame): void => {
    switch (frame.type) {
      case 'assignments':
        agent.dispatch(frame);
        return;
      case 'members':
        setMembers(frame.members);
        if (frame.name !== undefined) options.onName(frame.name);
        return;
      case 'tasks':
        tasks.receive(frame);
        return;
      case 'artifact-sources':
      case 'artifact-grant':
      case 'artifacts-free':
        artifacts.onFrame(frame);
        return;
      case 'request':
        requests?.handle(frame);
        return;
      case 'cancel':
        requests?.cancel(frame.id);
        return;
      case 'controller-addresses':
        if (controller.kind === 'remote') controller.ways.announced(frame.addresses);
        return;
      case 'cluster-secret':
        options.onClusterSecret(frame.secret);
        return;
      case 'notice':
        options.onNotice(frame.error);
        return;
      case 'dial-order':
        transport.dialBack({
          peer: frame.from,
          peerName: frame.fromName,
          token: frame.token,
          route: frame.route,
          addresses: frame.addresses,
        });
        return;
    }
  };

  const handlers: RequestHandlers = {
    ...options.handlers,
    'task.log': ({ taskId }) => tasks.log(taskId),
  };
  const session = createSessionClient({
    dial: async (signal) =>
      controller.kind === 'local'
        ? controller.connect()
        : transport.dialSession({
            addresses: controller.ways.addresses(),
            expectedNodeId: controller.nodeId,
            timeoutMs: timings.connectMs,
            signal,
          }),
    hello: async () => {
      const machine = await probe.look();
      const { engine } = options;
      return {
        type: 'hello',
        protocol: PROTOCOL_VERSION,
        bootId: options.bootId,
        name: options.name,
        version: options.version,
        at: clock.now(),
        machine: options.machine,
        engine:
          engine.directory === null
            ? { buildId: null, reason: engine.reason.slice(0, 1024) }
            : { buildId: engine.buildId, rpcProtocol: engine.rpcProtocol },
        ...machine,
        telemetry: lentTelemetry(),
        lend: lend.state(),
        engines: agent.observed(),
        tasks: tasks.observed(),
        compute: tasks.facts(),
      };
    },
    heartbeat: () => ({ telemetry: lentTelemetry(), problems: probe.problems(), lend: lend.state() }),
    onWelcome: (welcome, { dialledAddress }) => {
      clockAheadMs = clock.now() - welcome.at;
      if (controller.kind === 'remote') controller.ways.connected(dialledAddress);
      requests = createRequestServer(handlers, (frame) => void session.send(frame));
      agent.dispatch({ type: 'welcome', leaseMs: welcome.leaseMs });
      tasks.welcome();
      controllerVersion = welcome.controllerVersion ?? null;
      options.onName(welcome.name);
      // What changed after the hello was made is in no frame yet.
      report.call();
      session.send({ type: 'compute', compute: tasks.facts() });
      artifacts.onWelcome();
    },
    onAck: (at) => {
      clockAheadMs = clock.now() - at;
      agent.dispatch({ type: 'ack' });
      tasks.ack();
    },
    onFrame: receive,
    onRefused: (error) => {
      // Removed while away: nobody will ever name these engines again, so they need not wait for their lease.
      if (error.code === 'node_removed') {
        agent.dispatch({ type: 'assignments', generation: agent.generation + 1, engines: [], keep: [] });
      }
    },
    onLost: () => {
      requests?.abortAll();
      requests = null;
      agent.dispatch({ type: 'session_lost' });
      tasks.sessionLost();
    },
    logger,
    random: Math.random,
  });

  if (controller.kind === 'remote') {
    transport.onDialRequest((request) => void session.send({ type: 'dial-request', ...request }));
    controller.ways.onChange(({ fresh }) => {
      if (fresh) session.nudge();
    });
  }
  const stopHearing = lend.onChange(() => {
    tellLend();
    tasks.lendChanged();
    session.beat();
  });
  const stopMeasuring = watchCardLimits({
    limits: () => lend.rules().limits,
    engines: () => agent.observed(),
    measure: (pids) => probe.deviceUse(pids),
    onMeasured: (byPid) => agent.dispatch({ type: 'devices_measured', byPid }),
  });
  const stopWatching = watchOwnAddresses((lost) => {
    session.moved(lost);
    const moved = probe.moved();
    if (moved) session.send({ type: 'hardware', ...moved });
  });
  const logTimer = setInterval(() => {
    if (!session.welcome) return;
    const frame = forwarder.take();
    if (frame) session.send(frame);
  }, logEveryMs);

  let closing: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    logger.info('the worker ends');
    clearInterval(logTimer);
    stopWatching();
    stopMeasuring();
    stopHearing();
    await Promise.all([session.close('the worker was stopped'), agent.close(), tasks.close()]);
    report.cancel();
    artifacts.close();
  };
  return {
    status: () => ({
      connected: session.welcome !== null,
      controllerName: session.welcome?.controllerName ?? null,
      controllerVersion,
      trouble: session.trouble,
      hardware: probe.hardware(),
      compute: tasks.facts(),
      clockAheadMs,
      memberIds,
      engines: agent.observed().map(({ endpoint: _endpoint, ...engine }) => engine),
    }),
    close: () => (closing ??= close()),
  };
}
