import type { ConnectionOptions, SecureContext, TLSSocket } from 'node:tls';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { AlpnName } from '#shared/protocol/version.ts';
import { nodeIdOfCertificate } from '../identity/node-id.ts';
import { tls } from './tls-settings.ts';

export interface TlsTarget {
  readonly addresses: readonly Address[];
  /** The only key that is spoken to; null: any. */
  readonly nodeId: NodeId | null;
  /** For messages: "the controller", a node's name. */
  readonly name: string;
  readonly alpn: AlpnName;
  /** The code when none of the addresses answers. */
  readonly unreachable: ErrorCode;
  /** The code when something with another key answers; default: `unreachable`. */
  readonly mismatch?: ErrorCode;
}

export interface DialLimits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** A later address is tried alongside when an earlier one has not answered within this time. */
const staggerMs = 400;
export const keepAliveMs = 15_000;

/**
 * Opens TLS to the first address that answers with the expected key; the others are dropped. Not a byte is
 * written to any other key. The socket is half-open capable: who uses it ends it (see splice.ts, frames.ts).
 * Rejects with the target's codes, naming every address and what was wrong with it, or with the signal's reason.
 */
export async function dialTls(
  context: SecureContext,
  target: TlsTarget,
  limits: DialLimits,
): Promise<TLSSocket> {
  return (await dialTlsAt(context, target, limits)).socket;
}

export interface DialledTls {
  readonly socket: TLSSocket;
  readonly address: Address;
  readonly nodeId: NodeId;
}

/** As `dialTls`, and tells which key answered at which address. */
export function dialTlsAt(
  context: SecureContext,
  target: TlsTarget,
  limits: DialLimits,
): Promise<DialledTls> {
  return new Promise((resolve, reject) => {
    const reasons: string[] = [];
    let mismatched = false;
    let next = 0;
    let stagger: NodeJS.Timeout | undefined;
    const attempts = new Set<TLSSocket>();

    const finish = (outcome: () => void, keep?: TLSSocket): void => {
      clearTimeout(deadline);
      clearTimeout(stagger);
      limits.signal?.removeEventListener('abort', onAbort);
      for (const socket of attempts) if (socket !== keep) socket.destroy();
      attempts.clear();
      outcome();
    };
    const fail = (): void => {
      const code = mismatched ? (target.mismatch ?? target.unreachable) : target.unreachable;
      const message = `${capitalised(target.name)} cannot be reached: ${reasons.join('; ') || 'no address is known'}.`;
      finish(() => reject(new CoveyError(code, message)));
    };
    const onAbort = (): void => finish(() => reject(CoveyError.from(limits.signal?.reason)));
    const deadline = setTimeout(() => {
      reasons.push(`no answer within ${limits.timeoutMs} ms`);
      fail();
    }, limits.timeoutMs);

    const tryNext = (): void => {
      clearTimeout(stagger);
      const address = target.addresses[next];
      next += 1;
      if (!address) {
        if (attempts.size === 0) fail();
        return;
      }
      stagger = setTimeout(tryNext, staggerMs);
      const options: ConnectionOptions & { allowHalfOpen: boolean } = {
        host: address.host,
        port: address.port,
        secureContext: context,
        ALPNProtocols: [target.alpn],
        rejectUnauthorized: false,
        servername: '',
        allowHalfOpen: true,
      };
      const socket = tls.connect(options);
      socket.setNoDelay(true);
      socket.setKeepAlive(true, keepAliveMs);
      attempts.add(socket);
      const failed = (why: string): void => {
        if (!attempts.delete(socket)) return;
        reasons.push(`${address.host}:${address.port} ${why}`);
        socket.destroy();
        tryNext();
      };
      // They stay on the socket: once it is handed over they do nothing, and an error is never uncaught.
      socket.on('error', (error: NodeJS.ErrnoException) => failed(describeDialError(error)));
      socket.once('close', () => failed('closed the connection'));
      socket.once('secureConnect', () => {
        if (!attempts.has(socket)) return;
        const key = peerKey(socket);
        if (!key || (target.nodeId !== null && key !== target.nodeId)) {
          mismatched = true;
          return failed(`answers with another key (${key?.slice(0, 12) ?? 'none'})`);
        }
        if (socket.alpnProtocol !== target.alpn) return failed(`does not offer ${target.alpn}`);
        finish(() => resolve({ socket, address, nodeId: key }), socket);
      });
    };

    if (limits.signal?.aborted) return onAbort();
    limits.signal?.addEventListener('abort', onAbort, { once: true });
    tryNext();
    return undefined;
  });
}

/**
 * The name of whoever is on the other end, null when it showed no certificate. To be asked once per connection:
 * on the dialling side Node gives the certificate away with the first answer.
 */
export function peerKey(socket: TLSSocket): NodeId | null {
  const certificate = socket.getPeerX509Certificate();
  return certificate ? nodeIdOfCertificate(certificate) : null;
}

/** One clause without a subject: "refuses connections". */
export function describeDialError(error: NodeJS.ErrnoException): string {
  if (error.code === 'ECONNREFUSED') return 'refuses connections';
  if (error.code === 'ECONNRESET') return 'closed the connection';
  if (error.code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL') return 'has another role or version';
  if (error.code === 'ENOTFOUND') return 'is not a known host name';
  return error.code ? `failed with ${error.code}` : `failed: ${error.message}`;
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
