import type { TLSSocket } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { DialOrder, Member, RelayController } from '#shared/host/transport.ts';
import type { LogLevel } from '#shared/lib/logger.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import type { Dialer } from '../dial.ts';
import type { EndToEnd } from './end-to-end.ts';
import type { MemberTable } from './member-table.ts';
import { relayTarget } from './reach.ts';
import { dialBackMs } from './reverse-table.ts';

/** Connections that peers have asked for through the controller: dialled by us, used by them. */
export interface DialOrders {
  follow(order: DialOrder): void;
  setRelay(controller: RelayController | null): void;
  close(): void;
}

/** Dials at once; a leader opens a few streams for each stage that it has here. */
const maxAtOnce = 64;

export function createDialOrders(options: {
  readonly dialer: Dialer;
  readonly members: MemberTable;
  readonly endToEnd: EndToEnd;
  readonly relay: RelayController | null;
  /** Serves the peer as if it had dialled us. */
  readonly serve: (socket: TLSSocket, member: Member) => void;
  readonly log: (level: LogLevel, message: string) => void;
}): DialOrders {
  const { dialer, members } = options;
  const closing = new AbortController();
  let relay = options.relay;
  let running = 0;

  const dial = async (order: DialOrder): Promise<TLSSocket> => {
    const limits = { timeoutMs: dialBackMs, signal: closing.signal };
    if (order.route === 'reverse') {
      return dialer.open(
        {
          addresses: order.addresses,
          nodeId: order.peer,
          name: order.peerName,
          alpn: ALPN.tunnel,
          unreachable: 'stage_unreachable',
          preamble: { protocol: PROTOCOL_VERSION, target: 'reverse', token: order.token },
        },
        limits,
      );
    }
    if (!relay) throw new CoveyError('controller_unreachable', 'no controller is known that could relay');
    const controller = { ...relay, addresses: [...relay.addresses, ...order.addresses] };
    const stream = await dialer.open(relayTarget(controller, order.token, order.peer), limits);
    return options.endToEnd.server(stream, order.peer, limits);
  };

  const follow = async (order: DialOrder): Promise<void> => {
    const member = members.get(order.peer);
    if (!member || member.refusal) throw new CoveyError('not_a_member', 'it is no member');
    if (running >= maxAtOnce) throw new CoveyError('too_many_requests', `${running} dials at once`);
    running += 1;
    try {
      const socket = await dial(order);
      // It may have been removed meanwhile; a peer that is not served is told by the end.
      const current = members.get(order.peer);
      if (!current || current.refusal || current.role !== member.role) socket.destroy();
      else options.serve(socket, current);
    } finally {
      running -= 1;
    }
  };

  return {
    follow(order) {
      follow(order).catch((thrown: unknown) => {
        const error = CoveyError.from(thrown);
        // It has found another way, or we are closing.
        if (error.code === 'cancelled' || error.code === 'shutting_down') return;
        const what = order.route === 'reverse' ? 'a connection back' : 'a relayed connection';
        options.log('warn', `${order.peerName} asked for ${what}, which failed: ${error.message}`);
      });
    },
    setRelay: (controller) => void (relay = controller),
    close: () => closing.abort(new CoveyError('shutting_down', 'This machine is shutting down.')),
  };
}
