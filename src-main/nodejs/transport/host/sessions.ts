import type { TLSSocket } from 'node:tls';
import { WebSocket, WebSocketServer } from 'ws';
import { CoveyError } from '#shared/errors.ts';
import type { Member, TransportEvent } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import type { MemberTable } from './member-table.ts';
import { localAddressOf, remoteAddressOf } from './remote-address.ts';
import { createSessionSocket, sessionPath, webSocketOptions, type SessionSocket } from './session-socket.ts';

export interface Sessions {
  /** A member's connection on `covey-session`. */
  accept(socket: TLSSocket, member: Member): void;
  /** Makes a session of a connection that was dialled. Rejects when the other side closes without a word. */
  dialled(socket: TLSSocket, peerId: NodeId, operation: number, signal: AbortSignal): Promise<void>;
  get(session: number): SessionSocket | undefined;
  closeAll(): void;
}

/** Time from TLS to WebSocket. */
const upgradeMs = 10_000;

/** Importing `node:http` by name would load its web API too, which the transport process has no use for. */
const http = process.getBuiltinModule('node:http');

export function createSessions(
  members: MemberTable,
  emit: (event: TransportEvent) => void,
  nextSession: () => number,
): Sessions {
  const open = new Map<number, SessionSocket>();

  const register = (
    webSocket: WebSocket,
    socket: TLSSocket,
    peerId: NodeId,
    operation: number | null,
    onClosed: () => void,
  ): SessionSocket => {
    const session = nextSession();
    const entry = createSessionSocket(webSocket, session, emit, () => {
      open.delete(session);
      onClosed();
    });
    open.set(session, entry);
    const remoteAddress = remoteAddressOf(socket);
    const dialledAddress = operation === null ? null : { host: remoteAddress, port: socket.remotePort ?? 0 };
    emit({
      type: 'session',
      session,
      operation,
      peerId,
      remoteAddress,
      localAddress: localAddressOf(socket),
      dialledAddress,
    });
    return entry;
  };

  const admitted = new WeakMap<object, Member>();
  const webSockets = new WebSocketServer({ noServer: true, clientTracking: false, ...webSocketOptions });
  const upgrades = http.createServer({ maxHeaderSize: 8 * 1024, connectionsCheckingInterval: 3_600_000 });
  upgrades.on('request', (request) => request.socket.destroy());
  upgrades.on('clientError', (_error, socket) => socket.destroy());
  upgrades.on('upgrade', (request, duplex, head) => {
    const socket = request.socket as TLSSocket;
    const member = admitted.get(socket);
    if (!member || request.url !== sessionPath) {
      socket.destroy();
      return;
    }
    webSockets.handleUpgrade(request, duplex, head, (webSocket) => {
      socket.setTimeout(0);
      if (member.refusal) return refuse(webSocket, CoveyError.fromBody(member.refusal));
      // Expelled while it was being upgraded, or no longer what it was when it came.
      if (members.get(member.nodeId)?.role !== member.role) return webSocket.terminate();
      const untrack = members.track(member, {
        expel: (now) => {
          const refusal = now?.refusal;
          if (refusal) entry.send(refusalFrame(CoveyError.fromBody(refusal)));
          if (refusal) entry.close();
          else entry.destroy(new CoveyError('not_a_member', 'The machine is not a member any more.'));
        },
      });
      const entry = register(webSocket, socket, member.nodeId, null, untrack);
    });
  });

  return {
    accept(socket, member) {
      admitted.set(socket, member);
      socket.setTimeout(upgradeMs, () => socket.destroy());
      upgrades.emit('connection', socket);
    },
    dialled: (socket, peerId, operation, signal) =>
      new Promise((resolve, reject) => {
        const webSocket = new WebSocket(`ws://covey${sessionPath}`, {
          ...webSocketOptions,
          handshakeTimeout: upgradeMs,
          createConnection: () => socket,
          // A mask of zeros is left out of the arithmetic at both ends: inside TLS there is no proxy to confuse.
          generateMask: (mask) => void mask.fill(0),
        });
        const stop = (error: CoveyError): void => {
          signal.removeEventListener('abort', onAbort);
          webSocket.terminate();
          socket.destroy();
          reject(error);
        };
        const onAbort = (): void => stop(CoveyError.from(signal.reason));
        const onError = (error: NodeJS.ErrnoException): void =>
          stop(
            error.code === 'ECONNRESET'
              ? new CoveyError(
                  'not_a_member',
                  'The controller closed the connection without a word: it does not know this machine. Join again with a new join string.',
                )
              : new CoveyError('controller_unreachable', `No session: ${error.message}`, {}, error),
          );
        signal.addEventListener('abort', onAbort, { once: true });
        webSocket.once('error', onError);
        webSocket.once('open', () => {
          signal.removeEventListener('abort', onAbort);
          webSocket.off('error', onError);
          register(webSocket, socket, peerId, operation, () => undefined);
          resolve();
        });
      }),
    get: (session) => open.get(session),
    closeAll() {
      for (const session of open.values()) session.close();
    },
  };
}

function refusalFrame(error: CoveyError): string {
  return JSON.stringify({ type: 'refused', error: error.toBody() });
}

/** One frame with the reason, then the end. */
function refuse(webSocket: WebSocket, error: CoveyError): void {
  webSocket.on('error', () => undefined);
  webSocket.send(refusalFrame(error).slice(0, LIMITS.frameBytes));
  webSocket.close(1000);
}
