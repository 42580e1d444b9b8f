import type { NodeId } from '#shared/lib/ids.ts';
import type { PeerSession } from './transport.ts';

/**
 * Two ends of a session inside one process: how a controller that lends its own machine talks to its own
 * worker. Messages arrive in order and never within the call that sends them.
 */
export function createSessionPair(
  controllerId: NodeId,
  workerId: NodeId,
): { atController: PeerSession; atWorker: PeerSession } {
  const controllerEnd = createEnd(workerId);
  const workerEnd = createEnd(controllerId);
  controllerEnd.connect(workerEnd);
  workerEnd.connect(controllerEnd);
  return { atController: controllerEnd.session, atWorker: workerEnd.session };
}

interface End {
  readonly session: PeerSession;
  connect(other: End): void;
  deliver(text: string): void;
  closed(): void;
}

function createEnd(peerId: NodeId): End {
  let other: End | null = null;
  let open = true;
  const messageListeners: Array<(text: string) => void> = [];
  const closeListeners: Array<Parameters<PeerSession['onClose']>[0]> = [];
  const end: End = {
    connect(to) {
      other = to;
    },
    deliver(text) {
      if (open) for (const listener of messageListeners) listener(text);
    },
    closed() {
      if (!open) return;
      open = false;
      for (const listener of closeListeners) listener(null);
    },
    session: {
      peerId,
      remoteAddress: '127.0.0.1',
      localAddress: null,
      dialledAddress: null,
      send(text) {
        if (open) setImmediate(() => other?.deliver(text));
      },
      onMessage: (listener) => void messageListeners.push(listener),
      onClose: (listener) => void closeListeners.push(listener),
      close() {
        if (!open) return;
        setImmediate(() => {
          other?.closed();
          end.closed();
        });
      },
    },
  };
  return end;
}
