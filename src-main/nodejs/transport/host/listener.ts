import { constants } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Member, TransportAudit } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { ALPN } from '#shared/protocol/version.ts';
import { keepAliveMs, peerKey } from '../dial-tls.ts';
import { endWith } from '../frames.ts';
import { tls, tlsSettings } from '../tls-settings.ts';
import { rememberRemoteAddress, remoteAddressOf, tcpOf } from './remote-address.ts';
import { createConnectionGate, gateLimits, type GateLimits, type GatePass } from './connection-gate.ts';

export interface ListenerOptions {
  readonly identity: { readonly keyPem: string; readonly certPem: string };
  readonly listen: { readonly host: string; readonly port: number };
  readonly member: (nodeId: NodeId) => Member | undefined;
  /** null: this node takes no joins (sessions); the protocol is then not offered at all. */
  readonly onJoin: ((socket: TLSSocket, peerId: NodeId) => void) | null;
  readonly onSession: ((socket: TLSSocket, member: Member) => void) | null;
  readonly onStream: (socket: TLSSocket, member: Member, kind: 'tunnel' | 'http' | 'artifact') => void;
  readonly audit: (audit: TransportAudit) => void;
  readonly limits?: GateLimits;
  /** How long a TLS handshake may take. */
  readonly handshakeMs?: number;
}

export interface Listener {
  readonly address: Address;
  /** Stops listening and ends every connection. */
  close(): void;
}

const defaultHandshakeMs = 10_000;
/** The peer is simply gone: a health check, a scanner, a dial that was given up. Not worth a line. */
const gone: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'ENOTCONN']);

const streamKinds: Readonly<Record<string, 'tunnel' | 'http' | 'artifact'>> = {
  [ALPN.tunnel]: 'tunnel',
  [ALPN.http]: 'http',
  [ALPN.artifact]: 'artifact',
};

/**
 * The cluster port. Who a connection is from is decided by its key alone, what it wants by its ALPN name:
 *
 * 1. too many strangers (in all, or from this address): closed at TCP;
 * 2. no common ALPN name, or no TLS 1.3: the handshake fails;
 * 3. no certificate: closed;
 * 4. `covey-hello`: our key was shown in the handshake, that is all: ended;
 * 5. `covey-join`: any key may ask;
 * 6. a key that is no member's: closed. Up to here not one application byte was sent;
 * 7. the rest goes to the server of its protocol, which refuses by name what a member may not do.
 */
export async function createListener(options: ListenerOptions): Promise<Listener> {
  const gate = createConnectionGate(options.limits ?? gateLimits, () => performance.now());
  const protocols = [
    ...(options.onSession ? [ALPN.session] : []),
    ...(options.onJoin ? [ALPN.join] : []),
    ALPN.tunnel,
    ALPN.http,
    ALPN.artifact,
    ALPN.hello,
  ];
  const connections = new Map<Socket, GatePass>();

  const secure = tls.createServer({
    ...tlsSettings(options.identity),
    ALPNProtocols: protocols,
    requestCert: true,
    rejectUnauthorized: false,
    handshakeTimeout: options.handshakeMs ?? defaultHandshakeMs,
    // Every connection proves its key anew: no session tickets.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  });

  const tcp = createServer(
    // Not half open until TLS is there: a peer that ends before that ends the connection.
    { allowHalfOpen: false, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs },
    (raw) => {
      const remoteAddress = rememberRemoteAddress(raw);
      if (remoteAddress === null) return void raw.destroy();
      const pass = gate.enter(remoteAddress);
      if (!pass) {
        raw.destroy();
        options.audit({
          kind: 'flood',
          remoteAddress,
          peerId: null,
          detail: 'too many connections without a member key, closed at once',
        });
        return undefined;
      }
      connections.set(raw, pass);
      raw.on('error', () => raw.destroy());
      raw.once('close', () => {
        connections.delete(raw);
        pass.closed();
      });
      secure.emit('connection', raw);
      return undefined;
    },
  );

  secure.on('tlsClientError', (error: Error & { code?: string }, socket) => {
    socket.destroy();
    if (gone.has(error.code)) return;
    options.audit({
      kind: 'protocol_error',
      remoteAddress: remoteAddressOf(socket),
      peerId: null,
      detail: `no TLS session: ${error.code ?? error.message}`,
    });
  });

  secure.on('secureConnection', (socket) => {
    socket.allowHalfOpen = true;
    socket.on('error', () => socket.destroy());
    socket.setNoDelay(true);
    const remoteAddress = remoteAddressOf(socket);
    const peerId = peerKey(socket);
    const drop = (kind: TransportAudit['kind'], detail: string): void => {
      socket.destroy();
      options.audit({ kind, remoteAddress, peerId, detail });
    };
    if (!peerId) return drop('peer_unknown', 'showed no certificate');
    if (!socket.alpnProtocol) return drop('peer_unknown', 'named no protocol');
    if (socket.alpnProtocol === ALPN.hello) {
      if (options.member(peerId)) connections.get(tcpOf(socket))?.authenticated();
      return endWith(socket);
    }
    if (socket.alpnProtocol === ALPN.join) return options.onJoin?.(socket, peerId);
    const member = options.member(peerId);
    if (!member)
      return drop('peer_unknown', `asked for ${socket.alpnProtocol} with a key that is no member's`);
    connections.get(tcpOf(socket))?.authenticated();
    if (member.refusal) {
      options.audit({ kind: 'peer_refused', remoteAddress, peerId, detail: member.refusal.message });
    }
    if (socket.alpnProtocol === ALPN.session) {
      if (member.role !== 'worker') return drop('peer_refused', 'asked for a session but is no worker');
      return options.onSession?.(socket, member);
    }
    return options.onStream(socket, member, streamKinds[socket.alpnProtocol] ?? 'http');
  });

  const address = await listen(tcp, options.listen);
  return {
    address,
    close() {
      tcp.close();
      for (const raw of connections.keys()) raw.destroy();
    },
  };
}

/**
 * `0.0.0.0` means every interface, IPv6 included where the system has it. Rejects with `port_in_use` or
 * `config_invalid` (an address that is not this machine's).
 */
async function listen(server: Server, { host, port }: ListenerOptions['listen']): Promise<Address> {
  const hosts = host === '0.0.0.0' ? ['::', '0.0.0.0'] : [host];
  for (const [index, candidate] of hosts.entries()) {
    try {
      return { host, port: await listenOn(server, candidate, port) };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const noIpv6 = code === 'EAFNOSUPPORT' || code === 'EADDRNOTAVAIL' || code === 'EINVAL';
      if (index < hosts.length - 1 && noIpv6) continue;
      if (code === 'EADDRINUSE') {
        // Loaded for this one sentence: the transport process stays small.
        const { portInUse } = await import('../../http/port-owner.ts');
        throw await portInUse(host, port, 'Choose another with --cluster HOST:PORT.', 'cluster');
      }
      throw new CoveyError('config_invalid', `Cannot listen on ${host}:${port}: ${message}`, {
        field: 'cluster',
      });
    }
  }
  throw new CoveyError('config_invalid', `Cannot listen on ${host}:${port}.`, { field: 'cluster' });
}

function listenOn(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}
