import { createInterface } from 'node:readline';
import { timings } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { decodeJoinString } from '../nodejs/join-string.ts';
import { readMembership, writeMembership, type Membership } from '../nodejs/membership.ts';
import { createGatewayDialer } from '../nodejs/transport/dial.ts';
import { createTransport } from '../nodejs/transport/transport-client.ts';
import type { Transport } from '../nodejs/transport/transport.ts';
import { productVersion } from '../nodejs/version.ts';
import { createForwarder } from '../../src-worker/gateway/forwarder.ts';
import { createModelHandlers } from '../../src-worker/models/handlers.ts';
import { createWorker } from '../../src-worker/worker.ts';
import type { WorkerArguments } from './arguments.ts';
import { layFoundation } from './foundation.ts';
import { announce, closeAll, exitOnUncaught, runUntilStopped } from './lifecycle.ts';

/** Joins when asked to, then lends this machine until stopped. */
export async function startWorker(options: WorkerArguments): Promise<number> {
  const joinString = options.join === '-' ? await firstLine() : options.join;
  const foundation = await layFoundation(options);
  const { data, identity, logger } = foundation;
  exitOnUncaught(logger);
  const closers: Array<() => Promise<void>> = [() => data.close()];
  const close = (): Promise<void> => closeAll(closers, logger);
  try {
    const transport = await createTransport({
      processHost: foundation.processHost,
      identity,
      role: 'worker',
      listen: options.cluster,
      gatewaySocket: null,
      logger: logger.child({ part: 'transport' }),
    });
    closers.push(() => transport.close());
    const membership = await ensureMembership(data.path, joinString, options.name, transport, logger);
    const controller = { nodeId: membership.controllerId, addresses: membership.addresses };
    const worker = await createWorker({
      dataDirectory: data.path,
      name: options.name,
      version: productVersion,
      engine: foundation.engine,
      processHost: foundation.processHost,
      transport,
      controller: { kind: 'remote', ...controller },
      models: await createModelHandlers({ dataDirectory: data.path, logger }),
      logger,
      clock: { now: Date.now },
    });
    closers.push(() => worker.close());
    let apiAddress: string | null = null;
    if (options.api) {
      const dialer = createGatewayDialer({ identity, controller });
      closers.push(async () => dialer.close());
      const forwarder = await createForwarder({
        listen: options.api,
        dialGateway: dialer.dialGateway,
        status: () => worker.status(),
        logger: logger.child({ part: 'gateway' }),
      });
      closers.push(() => forwarder.close());
      apiAddress = forwarder.apiAddress;
    }
    const cluster = transport.clusterAddress;
    await announce(
      {
        role: 'worker',
        pid: process.pid,
        nodeId: identity.nodeId,
        name: options.name,
        version: productVersion,
        apiAddress,
        clusterAddress: cluster && `${cluster.host}:${cluster.port}`,
      },
      `Covey worker ${options.name} lends this machine to ${membership.controllerName}.` +
        (apiAddress ? `\n  API  ${apiAddress}/v1` : ''),
      options,
    );
    return await runUntilStopped(close, logger, options);
  } catch (error) {
    await close();
    throw error;
  }
}

/** The covey this machine belongs to: by the join string when there is one, else as remembered. */
async function ensureMembership(
  dataDirectory: string,
  joinString: string | undefined,
  name: string,
  transport: Transport,
  logger: Logger,
): Promise<Membership> {
  const known = await readMembership(dataDirectory);
  if (joinString === undefined) {
    if (known) return known;
    throw new CoveyError(
      'not_a_member',
      'This machine has not joined a covey yet. Run "covey invite" on the controller, then "covey worker --join STRING" here.',
      { field: 'join' },
    );
  }
  const content = decodeJoinString(joinString);
  if (!content.ok) throw content.error;
  const { controllerId, addresses, secret } = content.value;
  const reply = await transport.join(
    { addresses, expectedNodeId: controllerId, timeoutMs: timings.connectMs },
    { protocol: PROTOCOL_VERSION, secret, name },
  );
  if (!reply.ok) {
    // A service file may carry the string that was used at the first start: it is no reason not to start again.
    if (known?.controllerId === controllerId && reply.error.code !== 'protocol_version_mismatch') {
      logger.info('the join string was not needed, this machine is a member already', {
        reply: reply.error.code,
      });
      return known;
    }
    throw CoveyError.fromBody(reply.error);
  }
  const membership: Membership = { controllerId, controllerName: reply.controllerName, addresses };
  await writeMembership(dataDirectory, membership);
  logger.info('joined', { controller: reply.controllerName });
  return membership;
}

const joinLineMs = 60_000;

/** The join string from standard input, so that it stands in no process list. */
async function firstLine(): Promise<string> {
  const lines = createInterface({ input: process.stdin, terminal: false });
  const timer = setTimeout(() => lines.close(), joinLineMs);
  try {
    for await (const line of lines) if (line.trim()) return line.trim();
  } finally {
    clearTimeout(timer);
    lines.close();
  }
  throw new CoveyError('join_string_invalid', 'No join string came on standard input.', { field: 'join' });
}
