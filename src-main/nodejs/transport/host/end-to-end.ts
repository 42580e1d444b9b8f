import { constants } from 'node:crypto';
import type { SecureContext, TLSSocket } from 'node:tls';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { ALPN } from '#shared/protocol/version.ts';
import type { DialIdentity } from '../dial.ts';
import { peerKey, type DialLimits } from '../dial-tls.ts';
import { tls, tlsSettings } from '../tls-settings.ts';

/**
 * TLS between two members over a stream that a third passes on: keys are pinned as on the cluster port, so the
 * one in the middle sees ciphertext and can do no more than end it.
 */
export interface EndToEnd {
  /** As the one that needs the connection. */
  client(stream: TLSSocket, peer: NodeId, limits: DialLimits): Promise<TLSSocket>;
  /** As the one that serves it. */
  server(stream: TLSSocket, peer: NodeId, limits: DialLimits): Promise<TLSSocket>;
}

const protocol = Buffer.from(ALPN.tunnel);
/** The wire form, which is what `TLSSocket` takes at the serving end. */
const protocolList = Buffer.concat([Buffer.of(protocol.length), protocol]);

export function createEndToEnd(identity: DialIdentity, clientContext: SecureContext): EndToEnd {
  // Most machines never serve a relayed connection.
  let lazyServerContext: SecureContext | null = null;
  const serverContext = (): SecureContext =>
    (lazyServerContext ??= tls.createSecureContext({
      ...tlsSettings(identity),
      secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    }));
  return {
    client(stream, peer, limits) {
      const options = {
        socket: stream,
        secureContext: clientContext,
        ALPNProtocols: [ALPN.tunnel],
        rejectUnauthorized: false,
        servername: '',
        allowHalfOpen: true,
      };
      return established(tls.connect(options), 'secureConnect', peer, limits);
    },
    server(stream, peer, limits) {
      const options = {
        isServer: true,
        secureContext: serverContext(),
        ALPNProtocols: protocolList,
        requestCert: true,
        rejectUnauthorized: false,
        allowHalfOpen: true,
      };
      return established(new tls.TLSSocket(stream, options), 'secure', peer, limits);
    },
  };
}

/** Resolves when the handshake is done and the other end has the key of `peer`; ends the stream otherwise. */
function established(
  socket: TLSSocket,
  event: 'secure' | 'secureConnect',
  peer: NodeId,
  limits: DialLimits,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const fail = (code: ErrorCode, why: string): void => failWith(new CoveyError(code, why));
    const failWith = (error: CoveyError): void => {
      settle();
      socket.destroy();
      reject(error);
    };
    const settle = (): void => {
      clearTimeout(timer);
      limits.signal?.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => failWith(CoveyError.from(limits.signal?.reason));
    const timer = setTimeout(
      () => fail('timeout', `no TLS inside the relay within ${limits.timeoutMs} ms`),
      limits.timeoutMs,
    );
    limits.signal?.addEventListener('abort', onAbort, { once: true });
    // They stay on the socket: once it is handed over they do nothing, and an error is never uncaught.
    socket.on('error', (error: NodeJS.ErrnoException) =>
      fail('stage_unreachable', `no TLS inside the relay: ${error.code ?? error.message}`),
    );
    socket.once('close', () => fail('stage_unreachable', 'the relayed connection was closed'));
    socket.once(event, () => {
      if (peerKey(socket) !== peer) return fail('stage_unreachable', 'another key answers behind the relay');
      if (socket.alpnProtocol !== ALPN.tunnel) return fail('stage_unreachable', 'it speaks another protocol');
      settle();
      return resolve(socket);
    });
    if (limits.signal?.aborted) onAbort();
  });
}
