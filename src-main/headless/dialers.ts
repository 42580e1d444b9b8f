import type { Duplex } from 'node:stream';
import { timings } from '#shared/config.ts';
import type { Address } from '#shared/domain/node.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import type { DialUpstream } from '../controller/gateway/ports.ts';
import type { Dialer } from '../nodejs/transport/dial.ts';

/** Connections kept ready per peer, so that a request does not wait for a handshake. */
export const spareConnections = 2;

/** The gateway's way to an engine on another machine, by its grant. */
export function upstreamDialer(dialer: Dialer): DialUpstream {
  return (upstream, signal) =>
    dialer.open(
      {
        addresses: upstream.addresses,
        nodeId: upstream.nodeId,
        name: "the model's leading machine",
        alpn: ALPN.http,
        unreachable: 'engine_unreachable',
        preamble: { protocol: PROTOCOL_VERSION, target: 'engine', grant: upstream.grant },
      },
      { timeoutMs: timings.connectMs, signal },
    );
}

/** A worker-only machine's way to the controller's gateway. */
export function gatewayDialer(
  dialer: Dialer,
  controller: { readonly nodeId: NodeId; readonly addresses: readonly Address[] },
): (signal: AbortSignal) => Promise<Duplex> {
  return (signal) =>
    dialer.open(
      {
        addresses: controller.addresses,
        nodeId: controller.nodeId,
        name: 'the controller',
        alpn: ALPN.http,
        unreachable: 'controller_unreachable',
        preamble: { protocol: PROTOCOL_VERSION, target: 'gateway' },
      },
      { timeoutMs: timings.connectMs, signal },
    );
}
