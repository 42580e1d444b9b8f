import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ListenAddress } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { BootId } from '#shared/lib/ids.ts';
import { ensureLocalAccess } from '../nodejs/access/local-access.ts';
import { createMachineLogins } from '../nodejs/access/machine-logins.ts';
import { closeAll } from '../nodejs/close-all.ts';
import { announceNode } from '../nodejs/discovery/announce-node.ts';
import { createDiscoveryView } from '../nodejs/discovery/view.ts';
import { namingFullDisk } from '../nodejs/disk-full.ts';
import { createDuplicateWatch } from '../nodejs/duplicate-watch.ts';
import { machineMark } from '../nodejs/machine-id.ts';
import { readMembership, type Membership } from '../nodejs/membership.ts';
import { createSettingsPort } from '../nodejs/settings/settings-port.ts';
import { openSettings } from '../nodejs/settings/settings-store.ts';
import { createTransport } from '../nodejs/transport/transport-client.ts';
import { productVersion } from '../nodejs/version.ts';
import { createDoctorHandlers } from '../../src-worker/doctor/handlers.ts';
import { createForwarder } from '../../src-worker/gateway/forwarder.ts';
import { createJoiner, type Joiner } from '../../src-worker/joining/joiner.ts';
import { createLentDisk } from '../../src-worker/lend/lent-disk.ts';
import { createModelHandlers } from '../../src-worker/models/handlers.ts';
import { openArtifacts } from './artifacts.ts';
import { openDiscovery } from './discovery.ts';
import { openLending } from './lending.ts';
import { createMemberLife, type Member } from './member-life.ts';
import { addressText, runningEngines, type RoleNode, type RoleOptions } from './role-node.ts';
import { createWorkerSelf, type WorkerSelf } from './worker-self.ts';

const clock = { now: Date.now };

export interface WorkerNodeOptions extends RoleOptions {
  /** null: serve no API on this machine. */
  readonly api: ListenAddress | null;
  /** Joins by this string first; refused ones are thrown unless this machine is a member already. */
  readonly joinString: string | undefined;
  /** `HOST` or `HOST:PORT`, tried before the addresses of the join string. */
  readonly controller?: string | undefined;
}

export interface WorkerNode extends RoleNode {
  /** The covey that this machine belonged to when it started; null: it waits to be asked to join one. */
  readonly membership: Membership | null;
}

/**
 * Starts the worker; with a join string it is a member when this resolves. It owns the foundation from now on, also
 * when it throws.
 * @throws CoveyError the refusal of the join, `port_in_use`, and what else keeps it from starting
 */
export async function startWorkerNode(options: WorkerNodeOptions): Promise<WorkerNode> {
  const { foundation } = options;
  const { data, identity, logger } = foundation;
  const closers: Array<() => Promise<void>> = [() => data.close()];
  const close = (): Promise<void> => closeAll(closers, logger);
  try {
    const settings = await openSettings(data.path);
    const local = await ensureLocalAccess(data.path, 'worker');
    closers.push(() => local.publish(null));
    const bootId = randomBytes(16).toString('hex') as BootId;
    const artifacts = await openArtifacts(data.path, foundation.processHost);
    closers.push(async () => artifacts.hasher.close());
    const transport = await createTransport({
      processHost: foundation.processHost,
      identity,
      role: 'worker',
      listen: options.cluster,
      gatewaySocket: null,
      artifactDirectory: artifacts.store.directory,
      logger: logger.child({ part: 'transport' }),
    });
    closers.push(() => transport.close());
    const discovery = openDiscovery(options.discovery, settings, logger);
    if (discovery) closers.push(() => discovery.close());

    const lend = await openLending({ settings, transport, logger, clock });
    closers.push(async () => lend.close());
    const disk = createLentDisk(() => lend.rules().limits.diskBytes);
    const selfHolder: { self?: WorkerSelf } = {};
    const doctorContext = async () => {
      if (!selfHolder.self) throw new CoveyError('shutting_down', 'This machine is still starting.');
      return selfHolder.self.doctorContext();
    };
    const life = await createMemberLife({
      foundation,
      lend,
      name: options.name,
      bootId,
      machine: await machineMark(identity.nodeId),
      transport,
      artifacts: { ...artifacts, disk },
      discovery,
      handlers: {
        ...(await createModelHandlers({
          dataDirectory: data.path,
          logger,
          disk,
        })),
        ...createDoctorHandlers({ context: doctorContext, transport, clock }),
      },
    });
    closers.push(() => life.close());
    const joiner = createJoiner({
      transport,
      nodeId: identity.nodeId,
      name: options.name,
      discovery,
      dataDirectory: data.path,
      keepClusterSecret: (secret) => life.keepClusterSecret(secret),
      logger: logger.child({ part: 'joining' }),
      clock,
    });
    closers.push(async () => joiner.close());
    const duplicates = discovery
      ? createDuplicateWatch({
          discovery,
          transport,
          self: { nodeId: identity.nodeId, bootId },
          controllerId: () => life.current?.membership.controllerId ?? null,
          clock,
          logger,
        })
      : null;
    closers.push(async () => duplicates?.close());

    const follow = (): void => {
      if (!life.current && joiner.view().phase === 'joined') joiner.reset();
      joiner.setAutomatic(life.current ? null : life.clusterSecret);
      if (!discovery) return;
      announceNode(discovery, {
        role: 'worker',
        nodeId: identity.nodeId,
        bootId,
        name: life.name,
        version: productVersion,
        clusterAddress: transport.clusterAddress,
        clusterSecret: life.clusterSecret,
      });
    };
    life.onChange(follow);

    const canBeAsked = options.api !== null || life.clusterSecret !== null;
    const membership = await firstMembership(data.path, options, canBeAsked, joiner);
    joiner.onJoined((joined) => {
      life.begin(joined).catch((error: unknown) => {
        logger.error('the membership could not begin', { reason: CoveyError.from(error).message });
      });
    });
    const started = membership ? life.begin(membership) : Promise.resolve(follow());

    const logins = createMachineLogins(clock.now);
    let apiAddress: string | null = null;
    const self = createWorkerSelf({
      foundation,
      lend,
      logins,
      transport,
      discovery,
      look:
        discovery &&
        createDiscoveryView({
          discovery,
          transport,
          selfId: identity.nodeId,
          clock,
          membership: () => ({
            controllerId: life.current?.membership.controllerId ?? null,
            memberIds: life.current?.worker.status().memberIds ?? [],
          }),
          clusterSecret: () => life.clusterSecret,
        }),
      joiner,
      life,
      settings: createSettingsPort({
        store: settings,
        lan: () => null,
        onChanged: (sentence) => logger.info(sentence),
      }),
      apiAddress: () => apiAddress ?? '',
      notices: () => duplicates?.notices() ?? [],
    });
    selfHolder.self = self;
    await started;
    if (options.api) {
      const forwarder = await createForwarder({
        listen: options.api,
        dialGateway: (signal) =>
          life.current
            ? life.current.dialer.dialGateway(signal)
            : Promise.reject(
                new CoveyError(
                  'not_a_member',
                  'This machine belongs to no covey yet: run "covey join" here.',
                ),
              ),
        status: () => (life.current ? statusOf(life.current) : apart),
        local: { verify: (token) => local.verify(token) || logins.verify(token) },
        self: self.port,
        settings,
        clock,
        logger: logger.child({ part: 'gateway' }),
      });
      closers.push(() => forwarder.close());
      apiAddress = forwarder.apiAddress;
      await local.publish(apiAddress);
    }
    return {
      role: 'worker',
      nodeId: identity.nodeId,
      get name() {
        return life.name;
      },
      apiAddress,
      clusterAddress: addressText(transport.clusterAddress),
      local,
      self: self.port,
      settings,
      membership,
      serving: () => ({
        models: [],
        engines: runningEngines(life.current?.worker.status().engines ?? []),
      }),
      controllerVersion: () =>
        life.current?.worker.status().controllerVersion ??
        discovery?.peers().find(({ nodeId }) => nodeId === life.current?.membership.controllerId)?.version ??
        null,
      close,
    };
  } catch (error) {
    await close();
    throw namingFullDisk(error, data.path);
  }
}

/** While the controller is away, its name is the one of before. */
function statusOf({ worker, membership }: Member) {
  const status = worker.status();
  return { ...status, controllerName: status.controllerName ?? membership.controllerName };
}

/** What the API tells of a machine that belongs to no covey. */
const apart = {
  connected: false,
  controllerName: null,
  trouble: { code: 'not_a_member', message: 'This machine belongs to no covey yet.' },
  engines: [],
} as const;

/**
 * The covey this machine belongs to: by the join string when there is one, else as remembered; null when it waits
 * to be asked. Throws when the join string is refused, and when nobody could ask it anything.
 */
async function firstMembership(
  dataDirectory: string,
  { joinString, controller }: Pick<WorkerNodeOptions, 'joinString' | 'controller'>,
  canBeAsked: boolean,
  joiner: Joiner,
): Promise<Membership | null> {
  const known = await readMembership(dataDirectory);
  if (joinString === undefined) {
    if (known || canBeAsked) return known;
    throw new CoveyError(
      'not_a_member',
      'This machine has not joined a covey yet, and with "--api none" nobody can tell it to. Run "covey invite" on the controller, then "covey worker --join STRING" here.',
      { field: 'join' },
    );
  }
  try {
    await joiner.start({ joinString, controller });
    return await joined(joiner, dataDirectory);
  } catch (thrown) {
    const error = CoveyError.from(thrown);
    // A service file may carry the string that was used at the first start: it is no reason not to start again.
    if (known && stale.has(error.code)) return known;
    throw error;
  }
}

const joinPollMs = 20;

/** The end of an attempt that was begun: the membership, or what it failed by. */
async function joined(joiner: Joiner, dataDirectory: string): Promise<Membership | null> {
  for (;;) {
    const { phase, error } = joiner.view();
    if (phase === 'joined') return readMembership(dataDirectory);
    if (error) throw CoveyError.fromBody(error);
    await delay(joinPollMs);
  }
}

/** Refusals of a join string by the very controller that this machine belongs to. */
const stale: ReadonlySet<string> = new Set([
  'join_secret_used',
  'join_secret_expired',
  'join_secret_invalid',
]);
