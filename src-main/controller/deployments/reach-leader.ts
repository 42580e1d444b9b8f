import { connect } from 'node:net';
import { once } from 'node:events';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Transport } from '../../nodejs/transport/transport.ts';
import type { DialUpstream } from '../gateway/ports.ts';

/** A leader that answers directly does so in a fraction of this. */
const directMs = 1_500;
const streamMs = 10_000;
/** How often a leader that is asked to dial back is looked at: without a session it hears nothing. */
const lookMs = 100;
/** How long a leader that could not be dialled is reached through the transport without another try. */
const rememberMs = 30_000;
/** What a direct dial says when nobody is there; anything else is an answer. */
const unreachable: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['engine_unreachable', 'timeout']);

/**
 * The gateway's way to a llama-server on another machine: dialled directly from this process where that works,
 * else a stream of the transport process, which can have the leader dial back.
 * @param direct rejects with `engine_unreachable` or `timeout` when nobody answers
 * @param now monotonic ms
 */
export function createLeaderDialer(options: {
  readonly direct: DialUpstream;
  readonly transport: Pick<Transport, 'openStream'>;
  readonly nameOf: (nodeId: NodeId) => string;
  /** It has a session: it can be asked to dial back. */
  readonly isConnected: (nodeId: NodeId) => boolean;
  readonly now: () => number;
}): DialUpstream {
  const { transport, now } = options;
  const shutUntil = new Map<NodeId, number>();

  const byTransport: DialUpstream = async ({ nodeId, addresses, grant }, signal) => {
    const peerName = options.nameOf(nodeId);
    const gone = new AbortController();
    const look = setInterval(() => {
      if (!options.isConnected(nodeId))
        gone.abort(new CoveyError('engine_unreachable', `${peerName} has lost its connection.`));
    }, lookMs);
    const { socketPath } = await transport
      .openStream({
        peer: nodeId,
        peerName,
        addresses,
        grant,
        timeoutMs: streamMs,
        signal: AbortSignal.any([signal, gone.signal]),
      })
      .finally(() => clearInterval(look));
    const socket = connect({ path: socketPath, allowHalfOpen: true });
    try {
      await once(socket, 'connect', { signal });
      return socket;
    } catch (error) {
      socket.destroy();
      throw signal.aborted ? error : CoveyError.from(error);
    }
  };

  return async (upstream, signal) => {
    if (now() < (shutUntil.get(upstream.nodeId) ?? 0)) return byTransport(upstream, signal);
    const limit = AbortSignal.timeout(directMs);
    try {
      return await options.direct(upstream, AbortSignal.any([signal, limit]));
    } catch (error) {
      if (signal.aborted) throw error;
      const late = limit.aborted;
      if (!late && !(error instanceof CoveyError && unreachable.has(error.code))) throw error;
      if (!options.isConnected(upstream.nodeId)) throw error;
      const stream = await byTransport(upstream, signal);
      shutUntil.set(upstream.nodeId, now() + rememberMs);
      return stream;
    }
  };
}
