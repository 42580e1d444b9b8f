import type { CoveyError } from '../../../src-main/shared/errors.ts';
import type { NodeId } from '../../../src-main/shared/lib/ids.ts';
import type { PeerSession } from '../../../src-main/nodejs/transport/transport.ts';

/** One end of a session whose other end is the test's: what is delivered arrives within the call. */
export interface FuzzSession {
  readonly peer: PeerSession;
  /** What the program sent, taken out by the test. */
  readonly sent: string[];
  /** The program has closed it. */
  readonly closed: boolean;
  deliver(text: string): void;
  /** The connection is gone. */
  end(): void;
}

export function createFuzzSession(peerId: NodeId, remoteAddress = '192.0.2.1'): FuzzSession {
  const messages: Array<(text: string) => void> = [];
  const closes: Array<(reason: CoveyError | null) => void> = [];
  const sent: string[] = [];
  let closed = false;
  let over = false;
  return {
    sent,
    get closed() {
      return closed;
    },
    peer: {
      peerId,
      remoteAddress,
      localAddress: '192.0.2.2',
      dialledAddress: null,
      send: (text) => void (over || sent.push(text)),
      onMessage: (listener) => void messages.push(listener),
      onClose: (listener) => void closes.push(listener),
      close: () => void (closed = true),
    },
    deliver(text) {
      if (!closed && !over) for (const listener of messages) listener(text);
    },
    end() {
      if (over) return;
      over = true;
      for (const listener of closes) listener(null);
    },
  };
}
