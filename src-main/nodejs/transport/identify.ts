import type { SecureContext } from 'node:tls';
import type { Address } from '#shared/domain/node.ts';
import type { AddressAttempt } from '#shared/domain/network.ts';
import { CoveyError } from '#shared/errors.ts';
import { ALPN } from '#shared/protocol/version.ts';
import { describeDialError, peerKey } from './dial-tls.ts';
import { endWith } from './frames.ts';
import { tls } from './tls-settings.ts';

/** Dials each address at once over `covey-hello` and tells which key answers there. Rejects only when aborted. */
export function identify(
  context: SecureContext,
  addresses: readonly Address[],
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<AddressAttempt[]> {
  return Promise.all(addresses.map((address) => identifyOne(context, address, timeoutMs, signal)));
}

function identifyOne(
  context: SecureContext,
  address: Address,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<AddressAttempt> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(CoveyError.from(signal.reason));
    const startedAt = performance.now();
    const socket = tls.connect({
      host: address.host,
      port: address.port,
      secureContext: context,
      ALPNProtocols: [ALPN.hello],
      rejectUnauthorized: false,
      servername: '',
    });
    const settle = (outcome: () => void): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      outcome();
    };
    const finish = (outcome: () => void): void => {
      socket.destroy();
      settle(outcome);
    };
    const failed = (problem: string): void =>
      finish(() => resolve({ address, nodeId: null, connectMs: null, problem }));
    const onAbort = (): void => finish(() => reject(CoveyError.from(signal?.reason)));
    const timer = setTimeout(() => failed(`does not answer within ${timeoutMs} ms`), timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    // They stay: an error after the outcome is never uncaught.
    socket.on('error', (error: NodeJS.ErrnoException) => failed(describeDialError(error)));
    socket.once('close', () => failed('closes the connection'));
    socket.once('secureConnect', () => {
      const nodeId = peerKey(socket);
      if (!nodeId) return failed('shows no certificate');
      const connectMs = performance.now() - startedAt;
      // Our last handshake message has not left yet: ended in order, the other side learns whose question it was.
      endWith(socket);
      return settle(() => resolve({ address, nodeId, connectMs, problem: null }));
    });
    return undefined;
  });
}
