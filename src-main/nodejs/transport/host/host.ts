import type { Address } from '#shared/domain/node.ts';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type {
  ArtifactRead,
  DialRequest,
  JoinDialRequest,
  LinkRequest,
  PeerTarget,
  RelayController,
  TransportCommand,
  TransportEvent,
  TransportInit,
} from '#shared/host/transport.ts';
import type { LogLevel } from '#shared/lib/logger.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Preamble } from '#shared/protocol/join.ts';
import { ALPN, PROTOCOL_VERSION, type AlpnName } from '#shared/protocol/version.ts';
import { createDialer } from '../dial.ts';
import { dialTls, dialTlsAt, type TlsTarget } from '../dial-tls.ts';
import { identify } from '../identify.ts';
import { accepted } from './accepted.ts';
import { createArtifactGrants } from './artifact-grants.ts';
import { createArtifactReader } from './artifact-reader.ts';
import { createArtifactServer } from './artifact-server.ts';
import { createAudit } from './audit.ts';
import { createDialOrders } from './dial-orders.ts';
import { createEndToEnd } from './end-to-end.ts';
import { createGrantTable } from './grant-table.ts';
import { createJoins } from './joins.ts';
import { openLink, type OpenLink } from './link.ts';
import { createListener } from './listener.ts';
import { createMemberTable } from './member-table.ts';
import { runProbe } from './probe.ts';
import { createReach } from './reach.ts';
import { createRelayExchange } from './relay-exchange.ts';
import { createReverseTable } from './reverse-table.ts';
import { createSessions } from './sessions.ts';
import { createStreamServer } from './stream-server.ts';
import { offerStream } from './stream-socket.ts';
import { createUploadLimit } from './upload-limit.ts';

export interface TransportHost {
  handle(command: Exclude<TransportCommand, { type: 'init' | 'stop' }>): void;
  close(): void;
}

/** Addresses that a probe tries one by one, and how long. */
const maxAttempts = 16;
const attemptMs = 2_000;

/** A beat without links only tells that we live. */
const idleBeatEvery = 5;

/**
 * Everything that the transport process does, apart from being a process. Emits `ready` or throws the reason
 * why it cannot be.
 */
export async function createTransportHost(
  init: TransportInit,
  emit: (event: TransportEvent) => void,
): Promise<TransportHost> {
  const audit = createAudit(
    (entry) => emit({ type: 'audit', audit: entry }),
    () => performance.now(),
  );
  const members = createMemberTable(init.members);
  const grants = createGrantTable(init.grants, () => performance.now());
  let lastSession = 0;
  const nextSession = (): number => (lastSession += 1);
  const sessions = createSessions(members, emit, nextSession);
  const joins = createJoins({ emit, audit, nextSession });
  const log = (level: LogLevel, message: string): void => emit({ type: 'log', level, message });
  const dialer = createDialer({ identity: init, spares: 0 });
  const endToEnd = createEndToEnd(init, dialer.context);
  const reverse = createReverseTable();
  const relays = init.role === 'controller' ? createRelayExchange({ accepted, log }) : null;
  const operations = new Map<number, { readonly abort: AbortController; link: OpenLink | null }>();

  const upload = createUploadLimit(() => performance.now(), init.uploadBytesPerS);

  const artifactGrants = createArtifactGrants(init.artifactGrants, () => performance.now());

  const streams = createStreamServer({
    grants,
    artifacts:
      init.artifactDirectory === null
        ? null
        : createArtifactServer({ directory: init.artifactDirectory, grants: artifactGrants, upload }),
    members,
    gatewaySocket: init.gatewaySocket,
    reverse,
    relays,
    pulseLostMs: init.pulseLostMs,
    upload,
    audit,
  });
  const listener = init.listen
    ? await createListener({
        identity: init,
        listen: init.listen,
        member: (nodeId) => members.get(nodeId),
        onJoin: init.role === 'controller' ? (socket, peerId) => joins.accept(socket, peerId) : null,
        onSession: init.role === 'controller' ? (socket, member) => sessions.accept(socket, member) : null,
        onStream: streams,
        audit,
      })
    : null;

  const reach = createReach({
    dialer,
    members,
    reverse,
    endToEnd,
    listening: listener !== null,
    controlling: init.role === 'controller',
    relay: init.relay,
    ask: (request) => emit({ type: 'dial-request', request }),
  });
  const orders = createDialOrders({
    dialer,
    members,
    endToEnd,
    relay: init.relay,
    serve: (socket, member) => streams(socket, member, 'dialled-for-peer'),
    log,
  });
  const artifacts = createArtifactReader(reach);
  const probing = new Set<NodeId>();

  /** Runs `work` until it is done or cancelled; what it throws is the operation's failure. */
  const run = (operation: number, work: (signal: AbortSignal) => Promise<OpenLink | null>): void => {
    const entry = { abort: new AbortController(), link: null as OpenLink | null };
    operations.set(operation, entry);
    void work(entry.abort.signal).then(
      (link) => {
        if (!link) operations.delete(operation);
        else if (entry.abort.signal.aborted) link.close();
        else entry.link = link;
      },
      (error: unknown) => {
        operations.delete(operation);
        if (entry.abort.signal.aborted) return;
        emit({ type: 'operation-failed', operation, error: CoveyError.from(error).toBody() });
      },
    );
  };

  const dialSession = (operation: number, target: DialRequest): void =>
    run(operation, async (signal) => {
      const limits = { timeoutMs: target.timeoutMs, signal };
      const socket = await dialTls(dialer.context, controllerTarget(target, ALPN.session), limits);
      await sessions.dialled(socket, target.expectedNodeId, operation, signal);
      return null;
    });

  const dialJoin = (operation: number, target: JoinDialRequest): void =>
    run(operation, async (signal) => {
      const limits = { timeoutMs: target.timeoutMs, signal };
      const dialled = await dialTlsAt(dialer.context, controllerTarget(target, ALPN.join), limits);
      joins.dialled(dialled.socket, dialled.nodeId, operation, dialled.address);
      return null;
    });

  const tellKeys = (operation: number, addresses: readonly Address[], timeoutMs: number): void =>
    run(operation, async (signal) => {
      const attempts = await identify(dialer.context, addresses, timeoutMs, signal);
      emit({ type: 'identified', operation, attempts });
      return null;
    });

  const open = (operation: number, request: LinkRequest): void =>
    run(operation, async (signal) => {
      const link = await openLink({
        request,
        operation,
        reach,
        pulseMs: init.pulseMs,
        pulseLostMs: init.pulseLostMs,
        upload,
        signal,
        onLost(error) {
          if (operations.delete(operation)) emit({ type: 'link-lost', operation, error: error.toBody() });
        },
      });
      if (!signal.aborted) emit({ type: 'link-open', operation, port: link.port, beat: link.beat() });
      return link;
    });

  const openStream = (operation: number, target: PeerTarget, grant: string): void =>
    run(operation, async (signal) => {
      const { socket, path } = await reach.open(
        {
          ...peerOf(target, 'engine_unreachable'),
          alpn: ALPN.http,
          preamble: { protocol: PROTOCOL_VERSION, target: 'engine', grant },
        },
        { timeoutMs: target.timeoutMs, signal },
      );
      const socketPath = await offerStream(socket);
      emit({ type: 'stream-open', operation, socketPath, path });
      return null;
    });

  const probe = (operation: number, target: PeerTarget, bytes: number): void =>
    run(operation, async (signal) => {
      if (probing.has(target.peer)) {
        throw new CoveyError('too_many_requests', `The way to ${target.peerName} is being measured already.`);
      }
      probing.add(target.peer);
      try {
        const limits = { timeoutMs: target.timeoutMs, signal };
        const attempting = identify(
          dialer.context,
          target.addresses.slice(0, maxAttempts),
          Math.min(target.timeoutMs, attemptMs),
          signal,
        );
        const peer = peerOf(target, 'stage_unreachable');
        const preamble: Preamble = { protocol: PROTOCOL_VERSION, target: 'probe' };
        const reached = await reach
          .open({ ...peer, alpn: ALPN.tunnel, preamble }, limits)
          .catch(async (error: unknown) => {
            await attempting;
            throw error;
          });
        const onAbort = (): void => void reached.socket.destroy();
        signal.addEventListener('abort', onAbort, { once: true });
        const [attempts, result] = await Promise.all([attempting, runProbe(reached.socket, bytes)]).finally(
          onAbort,
        );
        if (!signal.aborted) {
          emit({ type: 'probed', operation, probe: { path: reached.path, ...result, attempts } });
        }
        return null;
      } finally {
        probing.delete(target.peer);
      }
    });

  const readArtifact = (operation: number, read: ArtifactRead): void =>
    run(operation, async (signal) => {
      const bytes = await artifacts.read(read, signal);
      if (!signal.aborted) emit({ type: 'artifact-read', operation, bytes });
      return null;
    });

  const setRelay = (controller: RelayController | null): void => {
    reach.setRelay(controller);
    orders.setRelay(controller);
  };

  const cancel = (operation: number): void => {
    const entry = operations.get(operation);
    operations.delete(operation);
    entry?.abort.abort(new CoveyError('cancelled', 'Not wanted any more.'));
    entry?.link?.close();
  };

  let sinceBeat = 0;
  const beat = setInterval(() => {
    const links = [...operations.values()].flatMap(({ link }) => (link ? [link.beat()] : []));
    sinceBeat += 1;
    if (links.length === 0 && sinceBeat < idleBeatEvery) return;
    sinceBeat = 0;
    emit({ type: 'beat', rssBytes: process.memoryUsage.rss(), links });
  }, init.pulseMs);

  emit({ type: 'ready', clusterAddress: listener?.address ?? null });
  return {
    handle(command) {
      switch (command.type) {
        case 'members':
          return members.set(command.members);
        case 'add-grant':
          return grants.add(command.grant);
        case 'remove-grants':
          return grants.remove(command.engineId);
        case 'dial-session':
          return dialSession(command.operation, command.target);
        case 'dial-join':
          return dialJoin(command.operation, command.target);
        case 'identify':
          return tellKeys(command.operation, command.addresses, command.timeoutMs);
        case 'open-link':
          return open(command.operation, command.link);
        case 'cancel':
          return cancel(command.operation);
        case 'send':
          return (sessions.get(command.session) ?? joins.get(command.session))?.send(command.text);
        case 'taken':
          return sessions.get(command.session)?.taken(command.bytes);
        case 'close-session':
          return (sessions.get(command.session) ?? joins.get(command.session))?.close();
        case 'hold-join':
          return joins.get(command.session)?.hold(command.deadlineMs);
        case 'renew-grants':
          return grants.renew();
        case 'add-artifact-grant':
          return artifactGrants.add(command.grant);
        case 'read-artifact':
          return readArtifact(command.operation, command.read);
        case 'open-stream':
          return openStream(command.operation, command.target, command.grant);
        case 'probe':
          return probe(command.operation, command.target, command.bytes);
        case 'set-relay':
          return setRelay(command.controller);
        case 'limit-upload':
          return upload.set(command.bytesPerS);
        case 'dial-back':
          return orders.follow(command.order);
        case 'allow-relay':
          return relays?.allow(command.pass);
      }
    },
    close() {
      clearInterval(beat);
      for (const operation of [...operations.keys()]) cancel(operation);
      orders.close();
      reverse.close();
      relays?.close();
      dialer.close();
      artifacts.close();
      // The closing frames are on their way before the connections go.
      sessions.closeAll();
      joins.closeAll();
      listener?.close();
    },
  };
}

function peerOf({ peer, peerName, addresses }: PeerTarget, unreachable: ErrorCode) {
  return { nodeId: peer, name: peerName, addresses, unreachable };
}

function controllerTarget(target: JoinDialRequest, alpn: AlpnName): TlsTarget {
  return {
    addresses: target.addresses,
    nodeId: target.expectedNodeId,
    name: 'the controller',
    alpn,
    unreachable: 'controller_unreachable',
    mismatch: 'controller_key_mismatch',
  };
}
