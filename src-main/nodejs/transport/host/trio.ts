import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Address } from '#shared/domain/node.ts';
import type {
  DialBack,
  LinkBeat,
  LinkRequest,
  Member,
  TransportCommand,
  TransportEvent,
} from '#shared/host/transport.ts';
import type { Identity } from '../../identity/identity.ts';
import {
  leaderId,
  listenEcho,
  makeIdentity,
  makeToken,
  stageId,
  startHost,
  type LoopbackServer,
  type TestHost,
} from '../fixtures.ts';

/**
 * For tests: a controller, a leader and a stage in this process, and what the main processes do between them:
 * dial requests become orders, as far as `routes` lets them.
 */
export interface Trio {
  readonly controller: TestHost;
  readonly leader: TestHost;
  readonly stage: TestHost;
  readonly engine: LoopbackServer;
  readonly grant: string;
  /** What the leader (or the controller) asked for so far. */
  readonly requests: readonly DialBack[];
  /** The routes that are ordered; a test may change them. */
  routes: ReadonlySet<DialBack['route']>;
  link(addresses: readonly Address[]): LinkRequest;
  /** Opens a link from the leader and resolves to its operation and port. */
  open(
    addresses: readonly Address[],
    overrides?: Partial<LinkRequest>,
  ): Promise<{ operation: number; port: number }>;
  beat(operation: number): Promise<LinkBeat>;
  close(): Promise<void>;
}

export interface TrioOptions {
  readonly routes?: readonly DialBack['route'][];
  readonly relayAddress?: Address;
  readonly controllerKey?: Identity;
  readonly stageListens?: boolean;
}

export async function startTrio(options: TrioOptions = {}): Promise<Trio> {
  const [controllerKey, leaderKey, stageKey] = await Promise.all([
    options.controllerKey ?? makeIdentity(),
    makeIdentity(),
    makeIdentity(),
  ]);
  const engine = await listenEcho();
  const grant = makeToken();
  const requests: DialBack[] = [];
  const asMember = (key: Identity, role: Member['role']): Member => ({
    nodeId: key.nodeId,
    role,
    name: `${role} ${key.nodeId.slice(0, 4)}`,
  });
  const workers = [asMember(leaderKey, 'worker'), asMember(stageKey, 'worker')];

  let operation = 0;
  const order = (from: TestHost, peer: TestHost, request: DialBack): void => {
    requests.push(request);
    if (!trio.routes.has(request.route)) return;
    if (request.route === 'relay') {
      trio.controller.host.handle({
        type: 'allow-relay',
        pass: {
          token: request.token,
          between: [from.identity.nodeId, request.peer],
          ttlMs: 10_000,
        },
      });
    }
    peer.host.handle({
      type: 'dial-back',
      order: {
        ...request,
        peer: from.identity.nodeId,
        peerName: 'the other',
        addresses: request.route === 'relay' ? [relayAddress] : [from.address],
      },
    });
  };
  const carry =
    (from: () => TestHost) =>
    (event: TransportEvent): void => {
      if (event.type === 'dial-request') setImmediate(() => order(from(), trio.stage, event.request));
    };

  const controller = await startHost(
    controllerKey,
    { role: 'controller', members: workers },
    carry(() => controller),
  );
  const relayAddress = options.relayAddress ?? controller.address;
  const relay = { nodeId: controllerKey.nodeId, addresses: [relayAddress] };
  const everyone = [asMember(controllerKey, 'controller'), ...workers];
  const leader = await startHost(
    leaderKey,
    { members: everyone, relay },
    carry(() => leader),
  );
  const stage = await startHost(stageKey, {
    members: everyone,
    relay,
    grants: [
      {
        token: grant,
        engineId: stageId,
        port: engine.port,
        peers: [leaderKey.nodeId, controllerKey.nodeId],
        maxStreams: 8,
        alpn: 'tunnel',
        ttlMs: 60_000,
      },
    ],
    ...(options.stageListens === false ? { listen: null } : {}),
  });

  const trio: Trio = {
    controller,
    leader,
    stage,
    engine,
    grant,
    requests,
    routes: new Set(options.routes ?? ['reverse', 'relay']),
    link: (addresses) => ({
      engineId: leaderId,
      stageEngineId: stageId,
      peer: stageKey.nodeId,
      peerName: 'the laptop',
      addresses,
      grant,
      connectTimeoutMs: 8_000,
    }),
    async open(addresses, overrides = {}) {
      operation += 1;
      const own = operation;
      const command: TransportCommand = {
        type: 'open-link',
        operation: own,
        link: { ...trio.link(addresses), ...overrides },
      };
      leader.host.handle(command);
      const answered = await leader.event(
        'link-open',
        (event) => event.operation === own,
        (event) => event.type === 'operation-failed' && event.operation === own,
      );
      return { operation: own, port: answered.port };
    },
    async beat(own) {
      const before = leader.events.length;
      const { links } = await leader.event(
        'beat',
        (event) =>
          leader.events.indexOf(event) >= before && event.links.some((link) => link.operation === own),
      );
      const found = links.find((link) => link.operation === own);
      if (!found) throw new Error('no beat of this link');
      return found;
    },
    async close() {
      for (const node of [leader, stage, controller]) node.host.close();
      await engine.close();
    },
  };
  return trio;
}

/** A connection to a link's port, that sends `text` and has had it back. */
export async function echoThrough(port: number, text: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(text);
  let heard = '';
  while (heard.length < text.length) {
    const [chunk] = (await once(socket, 'data', { signal: AbortSignal.timeout(8_000) })) as [Buffer];
    heard += chunk.toString();
  }
  if (heard !== text) throw new Error(`sent ${text}, got ${heard}`);
  return socket;
}
