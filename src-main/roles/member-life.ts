import type { ErrorBody } from '#shared/errors.ts';
import type { BootId } from '#shared/lib/ids.ts';
import { readClusterSecret, writeClusterSecret } from '../nodejs/cluster-secret-file.ts';
import type { Discovery } from '../nodejs/discovery/discovery.ts';
import {
  forgetMembership,
  openMembershipFile,
  type Membership,
  type MembershipFile,
} from '../nodejs/membership.ts';
import { createGatewayDialer } from '../nodejs/transport/dial.ts';
import type { Transport } from '../nodejs/transport/transport.ts';
import { productVersion } from '../nodejs/version.ts';
import {
  createControllerAddresses,
  type ControllerAddresses,
} from '../../src-worker/runtime/controller-addresses.ts';
import type { RequestHandlers } from '../../src-worker/runtime/requests.ts';
import type { LendPort } from '../../src-worker/lend/lend-monitor.ts';
import type { LentDisk } from '../../src-worker/lend/lent-disk.ts';
import { createWorker, type Worker } from '../../src-worker/worker.ts';
import type { OpenArtifacts } from './artifacts.ts';
import type { Foundation } from './foundation.ts';

/** This machine as a member of one covey. */
export interface Member {
  readonly membership: Membership;
  readonly worker: Worker;
  readonly controller: ControllerAddresses;
  readonly file: MembershipFile;
  /** Streams to the controller's gateway. */
  readonly dialer: ReturnType<typeof createGatewayDialer>;
}

/** Being a member, from joining to leaving; one change after the other. */
export interface MemberLife {
  readonly current: Member | null;
  /** As the covey calls this machine, while the controller is away too; its own name where it has told nothing. */
  readonly name: string;
  /** The cluster secret that this machine holds. */
  readonly clusterSecret: string | null;
  /** What the controller has told the people here, by code. */
  readonly notices: readonly ErrorBody[];
  /** Ends an earlier membership first. Resolves when the worker has begun. */
  begin(membership: Membership): Promise<void>;
  /** Ends what runs for the covey, and forgets it and its secret. */
  leave(): Promise<void>;
  keepClusterSecret(secret: string | null): Promise<void>;
  /** Fires after a membership began or ended, and when the cluster secret or the name is another one. */
  onChange(listener: () => void): void;
  close(): Promise<void>;
}

export async function createMemberLife(options: {
  readonly foundation: Foundation;
  readonly name: string;
  readonly bootId: BootId;
  readonly machine: string | null;
  readonly transport: Transport;
  readonly artifacts: OpenArtifacts & { readonly disk: LentDisk };
  readonly discovery: Discovery | null;
  readonly handlers: Omit<RequestHandlers, 'task.log'>;
  readonly lend: LendPort;
}): Promise<MemberLife> {
  const { foundation, transport } = options;
  const { data, identity, logger } = foundation;
  const listeners: Array<() => void> = [];
  const notices = new Map<string, ErrorBody>();
  let current: Member | null = null;
  let { name } = options;
  let clusterSecret = await readClusterSecret(data.path);
  let last: Promise<void> = Promise.resolve();

  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };

  const keepClusterSecret = async (secret: string | null): Promise<void> => {
    if (secret === clusterSecret) return;
    await writeClusterSecret(data.path, secret);
    clusterSecret = secret;
    changed();
  };

  const start = async (membership: Membership): Promise<void> => {
    const file = openMembershipFile(data.path, membership, logger);
    name = membership.name ?? options.name;
    const controller = createControllerAddresses({
      file,
      discovery: options.discovery,
      logger,
    });
    transport.setRelay({ nodeId: membership.controllerId, addresses: controller.addresses() });
    controller.onChange(() =>
      transport.setRelay({ nodeId: membership.controllerId, addresses: controller.addresses() }),
    );
    const dialer = createGatewayDialer({
      identity,
      controller: { nodeId: membership.controllerId, addresses: () => controller.addresses() },
    });
    const worker = await createWorker({
      dataDirectory: data.path,
      name: options.name,
      version: productVersion,
      bootId: options.bootId,
      engine: foundation.engine,
      processHost: foundation.processHost,
      transport,
      controller: { kind: 'remote', nodeId: membership.controllerId, ways: controller },
      machine: options.machine,
      handlers: options.handlers,
      dialGateway: (signal) => dialer.dialGateway(signal),
      lend: options.lend,
      artifacts: { ...options.artifacts, shared: false },
      onClusterSecret: (secret) =>
        void keepClusterSecret(secret).catch((error: unknown) =>
          logger.error('the cluster secret could not be kept', { reason: String(error) }),
        ),
      onName(called) {
        if (called !== file.current.name) file.keep({ name: called });
        if (called === name) return;
        name = called;
        logger.info(`the covey calls this machine ${name}`);
        changed();
      },
      onNotice: (notice) => void notices.set(notice.code, notice),
      logger,
      clock: { now: Date.now },
    });
    current = { membership, worker, controller, file, dialer };
  };

  const stop = async (): Promise<void> => {
    const ending = current;
    current = null;
    if (!ending) return;
    ending.dialer.close();
    await ending.worker.close();
    ending.controller.close();
    await ending.file.close();
    transport.setRelay(null);
    transport.setMembers([]);
    notices.clear();
    ({ name } = options);
  };

  return {
    get current() {
      return current;
    },
    get name() {
      return name;
    },
    get clusterSecret() {
      return clusterSecret;
    },
    get notices() {
      return [...notices.values()];
    },
    begin: (membership) =>
      inTurn(async () => {
        await stop();
        await start(membership);
        changed();
      }),
    leave: () =>
      inTurn(async () => {
        await stop();
        await forgetMembership(data.path);
        await keepClusterSecret(null);
        changed();
      }),
    keepClusterSecret,
    onChange: (listener) => void listeners.push(listener),
    close: () => inTurn(stop),
  };
}
