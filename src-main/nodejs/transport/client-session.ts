import type { CoveyError } from '#shared/errors.ts';
import type { PeerSession } from './transport.ts';

/** The main process's end of a session, and what its transport tells it. */
export interface ClientSession extends PeerSession {
  deliver(text: string): void;
  closed(reason: CoveyError | null): void;
}

/** Messages whose receipt is told together, in UTF-16 units. */
const tellAfter = 256 * 1024;

/** Messages that come before there is a listener wait for it; they are bounded by what may be untaken. */
export function createClientSession(
  ends: Pick<PeerSession, 'peerId' | 'remoteAddress' | 'localAddress' | 'dialledAddress'>,
  channel: {
    readonly send: (text: string) => void;
    readonly taken: (bytes: number) => void;
    readonly close: () => void;
  },
): ClientSession {
  const messageListeners: Array<(text: string) => void> = [];
  const closeListeners: Array<(reason: CoveyError | null) => void> = [];
  let early: string[] | null = [];
  let end: { readonly reason: CoveyError | null } | null = null;
  let untold = 0;

  const take = (text: string): void => {
    for (const listener of messageListeners) listener(text);
    untold += Buffer.byteLength(text);
    if (untold < tellAfter) return;
    channel.taken(untold);
    untold = 0;
  };
  const flush = (): void => {
    const waiting = early ?? [];
    early = null;
    for (const text of waiting) take(text);
  };

  return {
    peerId: ends.peerId,
    remoteAddress: ends.remoteAddress,
    localAddress: ends.localAddress,
    dialledAddress: ends.dialledAddress,
    send(text) {
      if (!end) channel.send(text);
    },
    onMessage(listener) {
      messageListeners.push(listener);
      if (messageListeners.length === 1) queueMicrotask(flush);
    },
    onClose(listener) {
      closeListeners.push(listener);
      const over = end;
      if (over) queueMicrotask(() => listener(over.reason));
    },
    close() {
      if (!end) channel.close();
    },
    deliver(text) {
      if (early) early.push(text);
      else take(text);
    },
    closed(reason) {
      if (end) return;
      end = { reason };
      if (early && messageListeners.length > 0) flush();
      for (const listener of closeListeners) listener(reason);
    },
  };
}
