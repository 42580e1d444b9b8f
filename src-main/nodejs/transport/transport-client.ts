import { timings, type ListenAddress } from '#shared/config.ts';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError, type ErrorBody, type ErrorCode } from '#shared/errors.ts';
import type { DialRequest, TransportCommand, TransportEvent, TransportInit } from '#shared/host/transport.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { joinReplySchema, joinRequestSchema, type JoinReply } from '#shared/protocol/join.ts';
import type { Identity } from '../identity/identity.ts';
import type { ProcessHost } from '../process-host/process-host.ts';
import { createClientLink, type ClientLink } from './client-link.ts';
import { createClientSession, type ClientSession } from './client-session.ts';
import { createSupervisor } from './host-supervisor.ts';
import type { DialTarget, Grant, JoinAttempt, Member, PeerSession, Transport } from './transport.ts';

export interface TransportOptions {
  readonly processHost: ProcessHost;
  readonly identity: Identity;
  /** A `controller` takes joins, sessions and members' `/v1`; both roles take streams for grants. */
  readonly role: 'controller' | 'worker';
  /** null: no cluster port; this node only dials. */
  readonly listen: ListenAddress | null;
  /** Where members' `/v1` is handed in: a unix socket or named pipe. null: not here. */
  readonly gatewaySocket: string | null;
  readonly logger: Logger;
  /** Known before the port opens, so that no member is taken for a stranger at the start. */
  readonly members?: readonly Member[];
  /** Liveness of links; the defaults are the product's. */
  readonly pulse?: { readonly pulseMs: number; readonly pulseLostMs: number };
}

interface Operation {
  readonly done: (event: TransportEvent) => void;
  readonly failed: (error: CoveyError) => void;
}

/** Starts the transport process. Rejects with `port_in_use` or `config_invalid` when it cannot listen. */
export async function createTransport(options: TransportOptions): Promise<Transport> {
  const { identity, logger } = options;
  let members: readonly Member[] = options.members ?? [];
  const grants = new Map<string, Grant>();
  let listen: TransportInit['listen'] = options.listen;
  let rssBytes: number | null = null;
  let closed = false;

  const operations = new Map<number, Operation>();
  const sessions = new Map<number, ClientSession>();
  const links = new Map<number, ClientLink>();
  let lastOperation = 0;

  // Peers that come before their listener is set wait for it.
  let onSession: ((session: PeerSession) => void) | null = null;
  const earlySessions: PeerSession[] = [];
  const joinHandler = Promise.withResolvers<(attempt: JoinAttempt) => Promise<JoinReply>>();
  let onAudit: Parameters<Transport['onAudit']>[0] = () => undefined;

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
      grants: [...grants.values()],
    }),
    onEvent: (event) => receive(event),
    onDown: (error) => dropAll(error),
  });

  /** Everything that lived in the process is over. */
  const dropAll = (error: CoveyError): void => {
    rssBytes = null;
    const ended = [...sessions.values()];
    const failed = [...operations.values()];
    const lost = [...links.values()];
    sessions.clear();
    operations.clear();
    links.clear();
    for (const operation of failed) operation.failed(error);
    for (const session of ended) session.closed(error);
    for (const link of lost) link.lost(new CoveyError('stage_lost', error.message, {}, error));
  };

  const receive = (event: TransportEvent): void => {
    switch (event.type) {
      case 'session':
        return addSession(event);
      case 'message':
        return sessions.get(event.session)?.deliver(event.text);
      case 'session-closed': {
        const session = sessions.get(event.session);
        sessions.delete(event.session);
        return session?.closed(errorOf(event.error));
      }
      case 'join-attempt':
        return void answerJoin(event);
      case 'joined':
      case 'link-open':
        return settle(event.operation, (operation) => operation.done(event));
      case 'operation-failed':
        return settle(event.operation, (operation) => operation.failed(CoveyError.fromBody(event.error)));
      case 'link-lost': {
        const link = links.get(event.operation);
        links.delete(event.operation);
        return link?.lost(CoveyError.fromBody(event.error));
      }
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

  const settle = (id: number, use: (operation: Operation) => void): void => {
    const operation = operations.get(id);
    operations.delete(id);
    if (operation) use(operation);
  };

  const addSession = (event: Extract<TransportEvent, { type: 'session' }>): void => {
    const id = event.session;
    const session = createClientSession(event, {
      send: (text) => supervisor.send({ type: 'send', session: id, text }),
      taken: (bytes) => supervisor.send({ type: 'taken', session: id, bytes }),
      close: () => supervisor.send({ type: 'close-session', session: id }),
    });
    if (event.operation !== null && !operations.has(event.operation)) {
      // The dial was given up in the same moment.
      session.close();
      return;
    }
    sessions.set(id, session);
    if (event.operation === null) {
      if (onSession) onSession(session);
      else earlySessions.push(session);
    } else settle(event.operation, (operation) => operation.done(event));
  };

  const answerJoin = async (event: Extract<TransportEvent, { type: 'join-attempt' }>): Promise<void> => {
    const { attempt, peerId, remoteAddress } = event;
    let reply: JoinReply;
    try {
      const request = joinRequestSchema.safeParse(parseJson(event.request));
      if (!request.success) throw new CoveyError('invalid_request', 'This is not a join request.');
      const onJoin = await joinHandler.promise;
      reply = await onJoin({ peerId, remoteAddress, request: request.data });
    } catch (error) {
      reply = { ok: false, error: CoveyError.from(error).toBody() };
    }
    supervisor.send({ type: 'answer-join', attempt, reply: JSON.stringify(reply) });
  };

  /**
   * Sends a command that will be answered; `accept` reads the answer in the moment that it comes, before any
   * event behind it. Rejects at once when there is no process to take the command.
   */
  const operate = <T>(
    whenDown: ErrorCode,
    command: (operation: number) => TransportCommand,
    accept: (event: TransportEvent, operation: number) => T,
    signal?: AbortSignal,
  ): Promise<T> =>
    new Promise((resolve, reject) => {
      lastOperation += 1;
      const id = lastOperation;
      if (signal?.aborted) return reject(CoveyError.from(signal.reason));
      const onAbort = (): void => {
        if (!operations.delete(id)) return;
        supervisor.send({ type: 'cancel', operation: id });
        reject(CoveyError.from(signal?.reason));
      };
      const over = (): void => signal?.removeEventListener('abort', onAbort);
      const failed = (error: CoveyError): void => {
        over();
        reject(error);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      operations.set(id, {
        failed,
        done(event) {
          over();
          resolve(accept(event, id));
        },
      });
      if (supervisor.send(command(id))) return undefined;
      operations.delete(id);
      return failed(
        closed
          ? new CoveyError('shutting_down', 'This machine is shutting down.')
          : new CoveyError(whenDown, 'The transport process is being started again.'),
      );
    });

  const clusterAddress: Address | null = await supervisor.start();
  // Another process must find the same port, and other machines must find it.
  if (clusterAddress && listen) listen = { host: listen.host, port: clusterAddress.port };

  return {
    clusterAddress,
    setMembers(next) {
      members = next;
      supervisor.send({ type: 'members', members });
    },
    onSession(listener) {
      onSession = listener;
      for (const session of earlySessions.splice(0)) listener(session);
    },
    onJoin: (handler) => joinHandler.resolve(handler),
    onAudit: (listener) => void (onAudit = listener),

    async dialSession(target) {
      const session = await operate(
        'controller_unreachable',
        (operation) => ({ type: 'dial-session', operation, target: dialRequest(target) }),
        (event) => (event.type === 'session' ? sessions.get(event.session) : undefined),
        target.signal,
      );
      if (!session) throw unexpected('dial-session');
      return session;
    },
    async join(target, request) {
      const json = JSON.stringify(request);
      const answer = await operate(
        'controller_unreachable',
        (operation) => ({ type: 'join', operation, target: dialRequest(target), request: json }),
        (event) => (event.type === 'joined' ? parseJson(event.reply) : null),
        target.signal,
      );
      const reply = joinReplySchema.safeParse(answer);
      if (!reply.success) {
        throw new CoveyError('controller_unreachable', 'The controller sent no valid answer to the join.');
      }
      return reply.data;
    },

    addGrant(grant) {
      grants.set(grant.token, grant);
      supervisor.send({ type: 'add-grant', grant });
    },
    removeGrants(engineId) {
      for (const grant of [...grants.values()]) if (grant.engineId === engineId) grants.delete(grant.token);
      supervisor.send({ type: 'remove-grants', engineId });
    },

    async openLink(request) {
      const link = await operate(
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
      );
      if (!link) throw unexpected('open-link');
      return link;
    },

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

function dialRequest({ addresses, expectedNodeId, timeoutMs }: DialTarget): DialRequest {
  return { addresses, expectedNodeId, timeoutMs };
}

function unexpected(command: string): CoveyError {
  return new CoveyError('internal_error', `The transport process sent a wrong answer to ${command}.`);
}

function errorOf(body: ErrorBody | null): CoveyError | null {
  return body && CoveyError.fromBody(body);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
