import { createHash } from 'node:crypto';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { JoinConversation } from '../transport/transport.ts';

/** A key for tests, from its name. */
export function testKey(name: string): NodeId {
  return createHash('sha256').update(name).digest('hex') as NodeId;
}

export interface JoinPairOptions {
  readonly workerId: NodeId;
  readonly controllerId: NodeId;
  /** Of this connection; both ends see the same. */
  readonly binding?: string;
  readonly remoteAddress?: string;
  readonly dialledAddress?: Address;
  /** What the controller's `hold` answers. */
  readonly holds?: boolean;
}

export interface ConversationEnd extends JoinConversation {
  /** Everything that this end has sent. */
  readonly sent: readonly string[];
  readonly isOpen: boolean;
  /** The connection breaks, for both ends. */
  cut(): void;
  /** Deadlines of `hold`. */
  readonly held: readonly number[];
}

/** The two ends of one join inside this process. Frames arrive in order and never within the call that sends them. */
export function createJoinPair(options: JoinPairOptions): {
  atController: ConversationEnd;
  atWorker: ConversationEnd;
} {
  const binding = options.binding ?? testKey(`binding ${options.workerId} ${options.controllerId}`);
  let over = false;
  const ends: End[] = [];
  const endBoth = (reason: CoveyError | null): void => {
    if (over) return;
    over = true;
    for (const end of ends) end.closed(reason);
  };
  const create = (peerId: NodeId, dialledAddress: Address | null): End => {
    const messages: Array<(text: string) => void> = [];
    const closes: Array<Parameters<JoinConversation['onClose']>[0]> = [];
    const sent: string[] = [];
    const held: number[] = [];
    const other = (): End | undefined => ends.find((one) => one !== end);
    const end: End = {
      deliver: (text) => {
        for (const listener of messages) listener(text);
      },
      closed: (reason) => {
        for (const listener of closes.splice(0)) listener(reason);
      },
      end: {
        peerId,
        remoteAddress: options.remoteAddress ?? '192.0.2.7',
        binding,
        dialledAddress,
        localAddress: '192.0.2.1',
        sent,
        held,
        get isOpen() {
          return !over;
        },
        send(text) {
          if (over) return;
          sent.push(text);
          // What was sent before the end still arrives.
          queueMicrotask(() => other()?.deliver(text));
        },
        onMessage: (listener) => void messages.push(listener),
        onClose: (listener) => void closes.push(listener),
        close: () => queueMicrotask(() => endBoth(null)),
        cut: () => endBoth(new CoveyError('controller_unreachable', 'The connection was cut.')),
        hold(deadlineMs) {
          held.push(deadlineMs);
          return options.holds ?? true;
        },
      },
    };
    return end;
  };
  const controllerEnd = create(options.workerId, null);
  const dialled = options.dialledAddress ?? { host: '192.0.2.1', port: 7879 };
  const workerEnd = create(options.controllerId, dialled);
  ends.push(controllerEnd, workerEnd);
  return { atController: controllerEnd.end, atWorker: workerEnd.end };
}

interface End {
  readonly end: ConversationEnd;
  deliver(text: string): void;
  closed(reason: CoveyError | null): void;
}
