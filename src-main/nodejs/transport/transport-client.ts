import { timings, type ListenAddress } from '#shared/config.ts';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import type { RelayController, TransportEvent, TransportInit } from '#shared/host/transport.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { Identity } from '../identity/identity.ts';
import type { ProcessHost } from '../process-host/process-host.ts';
import { createClientArtifactGrants } from './client-artifact-grants.ts';
import { createClientGrants } from './client-grants.ts';
import { createClientLink, type ClientLink } from './client-link.ts';
import { createOperations } from './client-operations.ts';
import { createClientSession, type ClientSession } from './client-session.ts';
import { createSupervisor } from './host-supervisor.ts';
import { createJoinWaitingRoom } from './join-waiting-room.ts';
import type { DialBack, JoinConversation, Member, PeerSession, Transport } from './transport.ts';

export interface TransportOptions {
  readonly processHost: ProcessHost;
  readonly identity: Identity;
  /** A `controller` takes joins, sessions, relays and members' `/v1`; both roles take streams for grants. */
  readonly role: 'controller' | 'worker';
  /** null: no cluster port; this node only dials. */
  readonly listen: ListenAddress | null;
  /** Where members' `/v1` is handed in: a unix socket or named pipe. null: not here. */
  readonly gatewaySocket: string | null;
  /** Of the artifact store that members with a grant may read. */
  readonly artifactDirectory?: string;
  readonly logger: Logger;
  /** Known before the port opens, so that no member is taken for a stranger at the start. */
  readonly members?: readonly Member[];
  /** Liveness of links; the defaults are the product's. */
  readonly pulse?: { readonly pulseMs: number; readonly pulseLostMs: number };
}

/** Hands on what comes, and keeps what came before there was a listener. */
interface Mailbox<T> {
  put(value: T): void;
  listen(listener: (value: T) => void): void;
}

/** Starts the transport process. Rejects with `port_in_use` or `config_invalid` when it cannot listen. */
export async function createTransport(options: TransportOptions): Promise<Transport> {
  const { identity, logger } = options;
  let members: readonly Member[] = options.members ?? [];
  let listen: TransportInit['listen'] = options.listen;
  let relay: RelayController | null = null;
  let uploadBytesPerS: number | null = null;
  let rssBytes: number | null = null;
  let closed = false;

  const grants = createClientGrants(() => performance.now());
  const artifactGrants = createClientArtifactGrants(() => performance.now());
  const sessions = new Map<number, ClientSession>();
  const joins = new Map<number, JoinConversation>();
  const waitingRoom = createJoinWaitingRoom();
  const links = new Map<number, ClientLink>();

  const arrivedSessions = createMailbox<PeerSession>();
  const arrivedJoins = createMailbox<JoinConversation>();
  let onAudit: Parameters<Transport['onAudit']>[0] = () => undefined;
  let onDialRequest: (request: DialBack) => void = () => undefined;

  const supervisor = createSupervisor({
    processHost: options.processHost,
    logger,
    init: () => ({
      nodeId: identity.nodeId,
      keyPem: identity.keyPem,
      certPem: identity.certPem,
      role: options.role,
      listen,
      gatewaySocket: options.gatewaySocket,
      pulseMs: options.pulse?.pulseMs ?? timings.pulseMs,
      pulseLostMs: options.pulse?.pulseLostMs ?? timings.pulseLostMs,
      members,
      grants: grants.current(),
      artifactDirectory: options.artifactDirectory ?? null,
      artifactGrants: artifactGrants.current(),
      relay,
      uploadBytesPerS,
    }),
    onEvent: (event) => receive(event),
    onDown: (error) => dropAll(error),
  });
  const operations = createOperations(
    (command) => supervisor.send(command),
    () => closed,
  );

  /** Everything that lived in the process is over. */
  const dropAll = (error: CoveyError): void => {
    rssBytes = null;
    const ended = [...sessions.values()];
    const lost = [...links.values()];
    sessions.clear();
    joins.clear();
    links.clear();
    operations.failAll(error);
    for (const session of ended) session.closed(error);
    for (const link of lost) link.lost(new CoveyError('stage_lost', error.message, {}, error));
  };

  const receive = (event: TransportEvent): void => {
    switch (event.type) {
      case 'session': {
        const session = addSession(event);
        if (!session) return;
        if (event.operation === null) arrivedSessions.put(session);
        else operations.done(event.operation, event);
        return;
      }
      case 'join': {
        const session = addSession(event);
        if (!session) return;
        const conversation = asJoin(session, event);
        joins.set(event.session, conversation);
        if (event.operation === null) arrivedJoins.put(conversation);
        else operations.done(event.operation, event);
        return;
      }
      case 'message':
        return sessions.get(event.session)?.deliver(event.text);
      case 'session-closed': {
        const session = sessions.get(event.session);
        sessions.delete(event.session);
        joins.delete(event.session);
        return session?.closed(errorOf(event.error));
      }
      case 'identified':
      case 'link-open':
      case 'stream-open':
      case 'artifact-read':
      case 'probed':
        return operations.done(event.operation, event);
      case 'operation-failed':
        return operations.failed(event.operation, CoveyError.fromBody(event.error));
      case 'link-lost': {
        const link = links.get(event.operation);
        links.delete(event.operation);
        return link?.lost(CoveyError.fromBody(event.error));
      }
      case 'dial-request':
        return onDialRequest(event.request);
      case 'audit':
        return onAudit(event.audit);
      case 'beat':
        rssBytes = event.rssBytes;
        for (const beat of event.links) links.get(beat.operation)?.beat(beat);
        return;
      case 'ready':
      case 'failed':
      case 'log':
        return;
    }
  };

  /** null: the dial was given up in the same moment. */
  const addSession = (event: Extract<TransportEvent, { type: 'session' | 'join' }>): ClientSession | null => {
    const id = event.session;
    const session = createClientSession(event, {
      send: (text) => supervisor.send({ type: 'send', session: id, text }),
      taken: (bytes) => supervisor.send({ type: 'taken', session: id, bytes }),
      close: () => supervisor.send({ type: 'close-session', session: id }),
    });
    if (event.operation !== null && !operations.has(event.operation)) {
      session.close();
      return null;
    }
    sessions.set(id, session);
    return session;
  };

  const asJoin = (
    session: ClientSession,
    event: Extract<TransportEvent, { type: 'join' }>,
  ): JoinConversation => {
    session.onClose(() => waitingRoom.leave(session));
    return {
      peerId: session.peerId,
      remoteAddress: session.remoteAddress,
      localAddress: session.localAddress,
      dialledAddress: session.dialledAddress,
      binding: event.binding,
      send: (text) => session.send(text),
      onMessage: (listener) => session.onMessage(listener),
      onClose: (listener) => session.onClose(listener),
      close: () => session.close(),
      hold(deadlineMs) {
        // The end that dialled has no deadline but its own.
        if (event.operation !== null) return true;
        if (!joins.has(event.session) || !waitingRoom.enter(session, session.remoteAddress)) return false;
        return supervisor.send({ type: 'hold-join', session: event.session, deadlineMs });
      },
    };
  };

  const clusterAddress: Address | null = await supervisor.start();
  // Another process must find the same port, and other machines must find it.
  if (clusterAddress && listen) listen = { host: listen.host, port: clusterAddress.port };

  return {
    clusterAddress,
    setMembers(next) {
      members = next;
      supervisor.send({ type: 'members', members });
    },
    onSession: (listener) => arrivedSessions.listen(listener),
    onJoin: (listener) => arrivedJoins.listen(listener),
    onAudit: (listener) => void (onAudit = listener),

    dialSession: ({ addresses, expectedNodeId, timeoutMs, signal }) =>
      operations.run(
        'controller_unreachable',
        (operation) => ({
          type: 'dial-session',
          operation,
          target: { addresses, expectedNodeId, timeoutMs },
        }),
        (event) => (event.type === 'session' ? (sessions.get(event.session) ?? null) : null),
        signal,
      ),
    dialJoin: ({ addresses, expectedNodeId, timeoutMs, signal }) =>
      operations.run(
        'controller_unreachable',
        (operation) => ({ type: 'dial-join', operation, target: { addresses, expectedNodeId, timeoutMs } }),
        (event) => (event.type === 'join' ? (joins.get(event.session) ?? null) : null),
        signal,
      ),
    identify: (addresses, timeoutMs) =>
      operations
        .run(
          'internal_error',
          (operation) => ({ type: 'identify', operation, addresses, timeoutMs }),
          (event) => (event.type === 'identified' ? [...event.attempts] : null),
        )
        .catch((error: unknown) =>
          addresses.map((address) => ({
            address,
            nodeId: null,
            connectMs: null,
            problem: `could not be tried: ${CoveyError.from(error).message}`.slice(0, 512),
          })),
        ),

    addGrant(grant) {
      grants.add(grant);
      supervisor.send({ type: 'add-grant', grant });
    },
    removeGrants(engineId) {
      grants.remove(engineId);
      supervisor.send({ type: 'remove-grants', engineId });
    },
    renewGrants() {
      grants.renew();
      supervisor.send({ type: 'renew-grants' });
    },

    addArtifactGrant(grant) {
      artifactGrants.add(grant);
      supervisor.send({ type: 'add-artifact-grant', grant });
    },
    readArtifact: (read, signal) =>
      operations.run(
        'artifact_unreachable',
        (operation) => ({ type: 'read-artifact', operation, read }),
        (event) => (event.type === 'artifact-read' ? event.bytes : null),
        signal,
      ),

    openLink: (request) =>
      operations.run(
        'stage_unreachable',
        (operation) => ({ type: 'open-link', operation, link: request }),
        (event, operation) => {
          if (event.type !== 'link-open') return null;
          const created = createClientLink(event.port, event.beat, () => {
            links.delete(operation);
            supervisor.send({ type: 'cancel', operation });
          });
          links.set(operation, created);
          return created.link;
        },
      ),
    openStream: ({ grant, signal, ...target }) =>
      operations.run(
        'engine_unreachable',
        (operation) => ({ type: 'open-stream', operation, target, grant }),
        (event) => (event.type === 'stream-open' ? { socketPath: event.socketPath, path: event.path } : null),
        signal,
      ),
    probe: ({ bytes, signal, ...target }) =>
      operations.run(
        'stage_unreachable',
        (operation) => ({ type: 'probe', operation, target, bytes }),
        (event) => (event.type === 'probed' ? event.probe : null),
        signal,
      ),

    setRelay(controller) {
      relay = controller;
      supervisor.send({ type: 'set-relay', controller });
    },
    setUploadLimit(bytesPerS) {
      uploadBytesPerS = bytesPerS;
      supervisor.send({ type: 'limit-upload', bytesPerS });
    },
    onDialRequest: (listener) => void (onDialRequest = listener),
    dialBack: (order) => void supervisor.send({ type: 'dial-back', order }),
    allowRelay: (pass) => void supervisor.send({ type: 'allow-relay', pass }),

    async close() {
      closed = true;
      await supervisor.stop();
      dropAll(new CoveyError('shutting_down', 'This machine is shutting down.'));
    },
    get rssBytes() {
      return rssBytes;
    },
  };
}

function createMailbox<T>(): Mailbox<T> {
  let listener: ((value: T) => void) | null = null;
  const early: T[] = [];
  return {
    put(value) {
      if (listener) listener(value);
      else early.push(value);
    },
    listen(next) {
      listener = next;
      for (const value of early.splice(0)) next(value);
    },
  };
}

function errorOf(body: ErrorBody | null): CoveyError | null {
  return body && CoveyError.fromBody(body);
}
