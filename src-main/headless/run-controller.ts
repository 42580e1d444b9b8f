import { productVersion } from '../nodejs/version.ts';
import { createController, type Controller } from '../controller/controller.ts';
import { createUpstreamDialer } from '../nodejs/transport/dial.ts';
import { createSessionPair } from '../nodejs/transport/memory-session.ts';
import { createTransport } from '../nodejs/transport/transport-client.ts';
import type { Worker } from '../../src-worker/worker.ts';
import type { ControllerArguments } from './arguments.ts';
import { gatewaySocketPath, layFoundation, type Foundation } from './foundation.ts';
import { announce, closeAll, exitOnUncaught, runUntilStopped } from './lifecycle.ts';

/** Starts the controller, with `lend` also a worker in the same process, and runs until stopped. */
export async function startController(options: ControllerArguments): Promise<number> {
  const foundation = await layFoundation(options);
  const { data, identity, logger } = foundation;
  exitOnUncaught(logger);
  const closers: Array<() => Promise<void>> = [() => data.close()];
  const close = (): Promise<void> => closeAll(closers, logger);
  try {
    const gatewaySocket = await gatewaySocketPath(data.path);
    const dialer = createUpstreamDialer({ identity });
    closers.push(async () => dialer.close());
    const controller = await createController({
      dataDirectory: data.path,
      nodeId: identity.nodeId,
      name: options.name,
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
          logger: logger.child({ part: 'transport' }),
        }),
      dialUpstream: dialer.dialUpstream,
      engineBuildId:
        foundation.engine.directory === null
          ? { known: false, reason: foundation.engine.reason }
          : { known: true, value: foundation.engine.buildId },
      logger,
      clock: { now: Date.now },
    });
    closers.push(() => controller.close());
    if (options.lend) {
      const worker = await lend(controller, foundation, options.name);
      closers.push(() => worker.close());
    }
    const cluster = controller.transport.clusterAddress;
    const clusterAddress = cluster && `${cluster.host}:${cluster.port}`;
    await announce(
      {
        role: 'controller',
        pid: process.pid,
        nodeId: identity.nodeId,
        name: options.name,
        version: productVersion,
        apiAddress: controller.apiAddress,
        clusterAddress,
      },
      `Covey controller ${options.name} is up.\n  API      ${controller.apiAddress}/v1\n  cluster  ${clusterAddress}\nAdd a machine: run "covey invite" here.`,
      options,
    );
    return await runUntilStopped(close, logger, options);
  } catch (error) {
    await close();
    throw error;
  }
}

/** The controller's own machine as a member: same key, same port, a session within the process. */
async function lend(
  controller: Controller,
  { data, identity, engine, processHost, logger }: Foundation,
  name: string,
): Promise<Worker> {
  const { createWorker } = await import('../../src-worker/worker.ts');
  const { createModelHandlers } = await import('../../src-worker/models/handlers.ts');
  controller.admitSelf(name);
  return createWorker({
    dataDirectory: data.path,
    name,
    version: productVersion,
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
    models: await createModelHandlers({ dataDirectory: data.path, logger }),
    logger: logger.child({ role: 'worker' }),
    clock: { now: Date.now },
  });
}
