import type { TLSSocket } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { TransportAudit, TransportEvent } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import { endWith, encodeFrame, readFrame } from '../frames.ts';
import { remoteAddressOf } from './remote-address.ts';

export interface JoinServer {
  accept(socket: TLSSocket, peerId: NodeId): void;
  /** The main process's answer, JSON. */
  answer(attempt: number, reply: string): void;
}

/**
 * Takes join requests of strangers: few at once, one small frame each, within LIMITS.joinMs from the start to
 * the answer. The request is judged in the main process.
 */
export function createJoinServer(
  emit: (event: TransportEvent) => void,
  audit: (audit: TransportAudit) => void,
): JoinServer {
  const waiting = new Map<number, TLSSocket>();
  let open = 0;
  let lastAttempt = 0;

  const refuse = (socket: TLSSocket, error: CoveyError): void =>
    endWith(socket, encodeFrame(JSON.stringify({ ok: false, error: error.toBody() })));

  const serve = async (socket: TLSSocket, peerId: NodeId): Promise<void> => {
    const remoteAddress = remoteAddressOf(socket);
    let request: string;
    try {
      request = await readFrame(socket, {
        maxBytes: LIMITS.joinBytes,
        timeoutMs: LIMITS.joinMs,
        whatFor: 'a join request',
        closed: () => new CoveyError('invalid_request', 'The connection ended before a join request.'),
      });
    } catch (error) {
      audit({ kind: 'protocol_error', remoteAddress, peerId, detail: (error as CoveyError).message });
      // Who has not said a proper word yet gets none back.
      socket.destroy();
      return;
    }
    lastAttempt += 1;
    const attempt = lastAttempt;
    waiting.set(attempt, socket);
    const timer = setTimeout(() => {
      if (waiting.delete(attempt)) refuse(socket, new CoveyError('timeout', 'The controller took too long.'));
    }, LIMITS.joinMs);
    socket.once('close', () => {
      clearTimeout(timer);
      waiting.delete(attempt);
    });
    emit({ type: 'join-attempt', attempt, peerId, remoteAddress, request });
  };

  return {
    accept(socket, peerId) {
      if (open >= LIMITS.joinConcurrent) {
        const detail = `${open} joins at once`;
        audit({ kind: 'join_limited', remoteAddress: remoteAddressOf(socket), peerId, detail });
        refuse(socket, new CoveyError('join_busy', 'Too many machines are joining at once. Try again.'));
        return;
      }
      open += 1;
      socket.once('close', () => (open -= 1));
      void serve(socket, peerId);
    },
    answer(attempt, reply) {
      const socket = waiting.get(attempt);
      waiting.delete(attempt);
      if (socket) endWith(socket, encodeFrame(reply));
    },
  };
}
