import type { SecureContext, TLSSocket } from 'node:tls';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Preamble } from '#shared/protocol/join.ts';
import { ALPN, LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { dialTls, type DialLimits, type TlsTarget } from './dial-tls.ts';
import { endWith, encodeFrame, readFrame } from './frames.ts';
import { parsePreambleReply } from './preamble.ts';
import { createSpareConnections } from './spare-connections.ts';
import { clientContext } from './tls-settings.ts';

export interface DialIdentity {
  readonly keyPem: string;
  readonly certPem: string;
}

export interface StreamTarget extends TlsTarget {
  readonly alpn: (typeof ALPN)['tunnel' | 'http' | 'artifact'];
  readonly preamble: Preamble;
}

/** Opens byte streams to other machines as this one. */
export interface Dialer {
  readonly context: SecureContext;
  /**
   * Resolves once the other side has accepted the preamble: from then on bytes go to the engine (or gateway)
   * that it names. Rejects with the other side's refusal, the target's `unreachable`, `timeout`, or the
   * signal's reason. The stream may end on either side: see `TlsTarget` on half-open.
   */
  open(target: StreamTarget, limits: DialLimits): Promise<TLSSocket>;
  /** Drops connections that wait for use; open streams go on. */
  close(): void;
}

/**
 * @param options.spares how many authenticated connections may wait for use, per peer and protocol: a request
 *   then does not pay for the handshake. The preamble is sent at use, so a spare holds no right to anything.
 */
export function createDialer(options: { readonly identity: DialIdentity; readonly spares: number }): Dialer {
  const context = clientContext(options.identity);
  const spares = createSpareConnections(context, options.spares);
  return {
    context,
    async open(target, limits) {
      const spare = spares.take(target);
      if (spare) {
        try {
          return await introduce(spare, target, limits);
        } catch (error) {
          // The peer dropped the spare in the same moment; anything else is an answer.
          if (!(error instanceof UnansweredError)) throw error;
        }
      }
      const socket = await dialTls(context, target, limits);
      spares.used(target);
      return introduce(socket, target, limits);
    },
    close: () => spares.close(),
  };
}

/** The connection ended before the preamble was answered: nothing has been done with it. */
class UnansweredError extends CoveyError {}

/** Says on a fresh connection what it is for. Resolves when the other side has accepted that, as `Dialer.open`. */
export async function introduce(
  socket: TLSSocket,
  target: StreamTarget,
  limits: DialLimits,
): Promise<TLSSocket> {
  socket.write(encodeFrame(JSON.stringify(target.preamble)));
  try {
    const json = await readFrame(socket, {
      maxBytes: LIMITS.preambleBytes,
      timeoutMs: limits.timeoutMs,
      whatFor: `${target.name} to accept a stream`,
      closed: () =>
        new UnansweredError(
          target.unreachable,
          `${target.name} closed the connection: it does not know this machine's key.`,
        ),
      ...(limits.signal ? { signal: limits.signal } : {}),
    });
    const reply = parsePreambleReply(json);
    if (!reply) throw new CoveyError(target.unreachable, `${target.name} sent no valid answer.`);
    if (!reply.ok) throw CoveyError.fromBody(reply.error);
    return socket;
  } catch (error) {
    if (error instanceof CoveyError && !(error instanceof UnansweredError) && !limits.signal?.aborted) {
      endWith(socket);
    } else {
      socket.destroy();
    }
    throw error;
  }
}

const connectMs = 10_000;
/** Enough for the requests that come while one handshake is being made. */
const spareStreams = 2;

/** The controller's gateway to llama-servers on other machines. The grant is bound to the controller's key. */
export function createUpstreamDialer(options: { readonly identity: DialIdentity }): {
  readonly dialUpstream: (
    upstream: { readonly nodeId: NodeId; readonly addresses: readonly Address[]; readonly grant: string },
    signal: AbortSignal,
  ) => Promise<TLSSocket>;
  close(): void;
} {
  const dialer = createDialer({ identity: options.identity, spares: spareStreams });
  return {
    dialUpstream: ({ nodeId, addresses, grant }, signal) =>
      dialer.open(
        {
          addresses,
          nodeId,
          name: `machine ${nodeId.slice(0, 12)}`,
          alpn: ALPN.http,
          unreachable: 'engine_unreachable',
          preamble: { protocol: PROTOCOL_VERSION, target: 'engine', grant },
        },
        { timeoutMs: connectMs, signal },
      ),
    close: () => dialer.close(),
  };
}

/** A worker's way to its controller's gateway, as the member that it is. */
export function createGatewayDialer(options: {
  readonly identity: DialIdentity;
  /** Its addresses may change while this runs. */
  readonly controller: { readonly nodeId: NodeId; readonly addresses: () => readonly Address[] };
}): { readonly dialGateway: (signal: AbortSignal) => Promise<TLSSocket>; close(): void } {
  const dialer = createDialer({ identity: options.identity, spares: spareStreams });
  const target = (): StreamTarget => ({
    nodeId: options.controller.nodeId,
    addresses: options.controller.addresses(),
    name: 'the controller',
    alpn: ALPN.http,
    unreachable: 'controller_unreachable',
    mismatch: 'controller_key_mismatch',
    preamble: { protocol: PROTOCOL_VERSION, target: 'gateway' },
  });
  return {
    dialGateway: (signal) => dialer.open(target(), { timeoutMs: connectMs, signal }),
    close: () => dialer.close(),
  };
}
