import { randomBytes } from 'node:crypto';
import type { ListenAddress } from '#shared/config.ts';
import type { BootId } from '#shared/lib/ids.ts';
import { createController, type Controller } from '../controller/controller.ts';
import { ensureLocalAccess } from '../nodejs/access/local-access.ts';
import { closeAll } from '../nodejs/close-all.ts';
import { connectSocket } from '../nodejs/connect-socket.ts';
import { namingFullDisk } from '../nodejs/disk-full.ts';
import { createDuplicateWatch, type DuplicateWatch } from '../nodejs/duplicate-watch.ts';
import { machineMark } from '../nodejs/machine-id.ts';
import { openSettings } from '../nodejs/settings/settings-store.ts';
import { createUpstreamDialer } from '../nodejs/transport/dial.ts';
import { createSessionPair } from '../nodejs/transport/memory-session.ts';
import { createTransport } from '../nodejs/transport/transport-client.ts';
import { productVersion } from '../nodejs/version.ts';
import type { LendPort } from '../../src-worker/lend/lend-monitor.ts';
import type { Worker } from '../../src-worker/worker.ts';
import { openArtifacts, type OpenArtifacts } from './artifacts.ts';
import { openDiscovery } from './discovery.ts';
import type { Lending } from './lending.ts';
import { gatewaySocketPath, type Foundation } from './foundation.ts';
import { addressText, runningEngines, type RoleNode, type RoleOptions, type Serving } from './role-node.ts';

export interface ControllerNodeOptions extends RoleOptions {
  readonly api: ListenAddress;
  /** Also lend this machine: a worker in the same process. */
  readonly lend: boolean;
}

const clock = { now: Date.now };

/**
 * Starts the controller. It owns the foundation from now on, also when it throws.
 * @throws CoveyError `port_in_use`, `config_invalid` and what else keeps it from starting
 */
export async function startControllerNode(options: ControllerNodeOptions): Promise<RoleNode> {
  const { foundation, name } = options;
  const { data, identity, logger } = foundation;
  const closers: Array<() => Promise<void>> = [() => data.close()];
  const close = (): Promise<void> => closeAll(closers, logger);
  try {
    const settings = await openSettings(data.path);
    const local = await ensureLocalAccess(data.path, 'controller');
    closers.push(() => local.publish(null));
    const gatewaySocket = await gatewaySocketPath(data.path);
    const dialer = createUpstreamDialer({ identity });
    closers.push(async () => dialer.close());
    const bootId = randomBytes(16).toString('hex') as BootId;
    const discovery = openDiscovery(options.discovery, settings, logger);
    if (discovery) closers.push(() => discovery.close());
    let duplicates: DuplicateWatch | null = null;
    let lending: Lending | null = null;
    const artifacts = await openArtifacts(data.path, foundation.processHost);
    closers.push(async () => artifacts.hasher.close());
    const controller = await createController({
      dataDirectory: data.path,
      nodeId: identity.nodeId,
      bootId,
      name,
      version: productVersion,
      api: options.api,
      gatewaySocket,
      openTransport: (members) =>
        createTransport({
          processHost: foundation.processHost,
          identity,
          role: 'controller',
          listen: options.cluster,
          gatewaySocket,
          members,
          artifactDirectory: artifacts.store.directory,
          logger: logger.child({ part: 'transport' }),
        }),
      dialUpstream: dialer.dialUpstream,
      discovery,
      settings,
      local,
      engine: foundation.engine,
      artifacts,
      lend: () => lending?.state() ?? null,
      unavailableRules: async () => (await lending?.unavailableRules()) ?? [],
      notices: () => duplicates?.notices() ?? [],
      logger,
      clock,
    });
    closers.push(() => controller.close());
    if (discovery) {
      duplicates = createDuplicateWatch({
        discovery,
        transport: controller.transport,
        self: { nodeId: identity.nodeId, bootId },
        controllerId: () => null,
        clock,
        logger,
        onDuplicate: ({ message }) => controller.note('security-identity-duplicate', 'error', message),
        onImpostor: (sentence) => controller.note('security-refused', 'warn', sentence),
      });
      closers.push(async () => duplicates?.close());
    }
    await local.publish(controller.apiAddress);
    let worker: Worker | null = null;
    if (options.lend) {
      const { openLending } = await import('./lending.ts');
      const rules = await openLending({ settings, transport: controller.transport, logger, clock });
      closers.push(async () => rules.close());
      lending = rules;
      worker = await lend(controller, foundation, name, bootId, rules, artifacts, gatewaySocket);
      const lent = worker;
      closers.push(() => lent.close());
    } else controller.withdrawSelf();
    return {
      role: 'controller',
      nodeId: identity.nodeId,
      name,
      apiAddress: controller.apiAddress,
      clusterAddress: addressText(controller.transport.clusterAddress),
      local,
      self: controller.self,
      settings,
      serving: () => serving(controller, worker),
      controllerVersion: () => null,
      close,
    };
  } catch (error) {
    await close();
    throw namingFullDisk(error, data.path);
  }
}

const servingPhases: ReadonlySet<string> = new Set(['loading', 'ready', 'draining']);

function serving({ runtime }: Controller, worker: Worker | null): Serving {
  const deployments = [...runtime.state.deployments.values()];
  return {
    models: deployments.filter(({ phase }) => servingPhases.has(phase)).map(({ model }) => model),
    engines: runningEngines(worker?.status().engines ?? []),
  };
}

/** The controller's own machine as a member: same key, same port, a session within the process. */
async function lend(
  controller: Controller,
  { data, identity, engine, processHost, logger }: Foundation,
  name: string,
  bootId: BootId,
  rules: LendPort,
  artifacts: OpenArtifacts,
  gatewaySocket: string,
): Promise<Worker> {
  const { createWorker } = await import('../../src-worker/worker.ts');
  const { createModelHandlers } = await import('../../src-worker/models/handlers.ts');
  const { createDoctorHandlers } = await import('../../src-worker/doctor/handlers.ts');
  const { createLentDisk } = await import('../../src-worker/lend/lent-disk.ts');
  controller.admitSelf(name);
  // Of models only: the artifacts here are the controller's own, within its setting `artifacts.quotaBytes`.
  const disk = createLentDisk(() => rules.rules().limits.diskBytes);
  return createWorker({
    dataDirectory: data.path,
    name,
    version: productVersion,
    bootId,
    engine,
    processHost,
    transport: controller.transport,
    controller: {
      kind: 'local',
      nodeId: identity.nodeId,
      connect() {
        const pair = createSessionPair(identity.nodeId, identity.nodeId);
        controller.sessions.accept(pair.atController);
        return pair.atWorker;
      },
    },
    machine: await machineMark(identity.nodeId),
    handlers: {
      ...(await createModelHandlers({
        dataDirectory: data.path,
        logger,
        disk,
      })),
      ...createDoctorHandlers({
        context: async () => controller.doctorContext(),
        transport: controller.transport,
        clock,
      }),
    },
    dialGateway: (signal) => connectSocket(gatewaySocket, signal),
    lend: rules,
    artifacts: { ...artifacts, shared: { room: (bytes) => controller.artifactRoom(bytes) }, disk },
    onClusterSecret: () => undefined,
    onName: () => undefined,
    onNotice: (notice) => logger.warn(notice.message, { code: notice.code }),
    logger: logger.child({ role: 'worker' }),
    clock,
  });
}
