import type { WebSocket } from 'ws';
import { CoveyError } from '#shared/errors.ts';
import type { TransportEvent } from '#shared/host/transport.ts';
import { LIMITS } from '#shared/protocol/version.ts';

/** What `ws` gets on both ends. Frames are small JSON: compression would only cost memory. */
export const webSocketOptions = {
  maxPayload: LIMITS.frameBytes,
  perMessageDeflate: false,
  // A peer that does not answer the closing handshake is cut.
  closeTimeout: 2_000,
} as const;

export const sessionPath = '/session';

/** Bytes that the main process may have on its way before the peer has to wait. */
const pauseAbove = 4 * 1024 * 1024;
const resumeBelow = 1024 * 1024;

export interface SessionSocket {
  send(text: string): void;
  taken(bytes: number): void;
  /** Sends what waits, then closes. */
  close(): void;
  destroy(reason: CoveyError): void;
}

/** One session's WebSocket as events for the main process. `session-closed` comes once and last. */
export function createSessionSocket(
  socket: WebSocket,
  session: number,
  emit: (event: TransportEvent) => void,
  onClosed: () => void,
): SessionSocket {
  let reason: CoveyError | null = null;
  let untakenBytes = 0;

  const destroy = (why: CoveyError): void => {
    reason ??= why;
    socket.terminate();
  };

  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) return destroy(new CoveyError('invalid_request', 'The other side sent a binary frame.'));
    untakenBytes += data.length;
    if (untakenBytes > pauseAbove) socket.pause();
    emit({ type: 'message', session, text: data.toString('utf8') });
  });
  socket.on('error', (error: Error) => {
    reason ??= new CoveyError('controller_unreachable', `The session broke: ${error.message}`, {}, error);
  });
  socket.on('close', (code) => {
    // 1006: the connection ended without a closing handshake.
    if (code === 1006) reason ??= new CoveyError('controller_unreachable', 'The connection was lost.');
    emit({ type: 'session-closed', session, error: reason?.toBody() ?? null });
    onClosed();
  });

  return {
    send(text) {
      if (socket.readyState !== socket.OPEN) return;
      if (socket.bufferedAmount + text.length > LIMITS.sessionBufferBytes) {
        return destroy(new CoveyError('timeout', 'The other side does not read its session.'));
      }
      socket.send(text);
    },
    taken(bytes) {
      untakenBytes -= bytes;
      if (socket.isPaused && untakenBytes < resumeBelow) socket.resume();
    },
    close: () => socket.close(1000),
    destroy,
  };
}
