import { createServer, type Server, type Socket } from 'node:net';
import type { LinkPath } from '#shared/domain/engine.ts';
import { CoveyError } from '#shared/errors.ts';
import type { LinkBeat, LinkRequest } from '#shared/host/transport.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { splice } from '../splice.ts';
import { watchPulse, type PulseMonitor } from './pulse.ts';
import type { PeerStreamTarget, Reach } from './reach.ts';
import { createTraffic } from './traffic.ts';
import type { UploadLimit } from './upload-limit.ts';

export interface LinkOptions {
  readonly request: LinkRequest;
  readonly operation: number;
  readonly reach: Reach;
  readonly pulseMs: number;
  readonly pulseLostMs: number;
  readonly upload: UploadLimit;
  /** Once, after it was open, unless it was closed here before. The link is closed when it is called. */
  readonly onLost: (error: CoveyError) => void;
  readonly signal: AbortSignal;
}

export interface OpenLink {
  readonly port: number;
  beat(): LinkBeat;
  close(): void;
}

/** llama-server opens a few connections per device, one after the other; more at once are not its. */
const maxStreams = 8;
/** A stage's answers that are final: the grant is gone, or we are. */
const refusals: ReadonlySet<string> = new Set([
  'grant_invalid',
  'grant_expired',
  'not_a_member',
  'node_removed',
  'protocol_version_mismatch',
]);

/**
 * The leader's side of one stage: a loopback listener whose every connection becomes one tunnel, and a pulse.
 * Any local program of the same machine can connect to the listener, as it can to the engine itself; it gets
 * the stage's attention for as long as the link lives, and nothing else.
 */
export async function openLink(options: LinkOptions): Promise<OpenLink> {
  const { request, reach, signal } = options;
  const target = (purpose: 'engine' | 'pulse'): PeerStreamTarget => ({
    addresses: request.addresses,
    nodeId: request.peer,
    name: request.peerName,
    alpn: ALPN.tunnel,
    unreachable: 'stage_unreachable',
    preamble: { protocol: PROTOCOL_VERSION, target: purpose, grant: request.grant },
  });

  const firstPulse = await reach
    .open(target('pulse'), { timeoutMs: request.connectTimeoutMs, signal })
    .catch((error: unknown) => {
      throw unreachable(request, CoveyError.from(error));
    });

  let opened = false;
  let closed = false;
  const traffic = createTraffic(() => performance.now());
  let pulsePath = firstPulse.path;
  /** Of the streams that are open, in the order in which they came. */
  const streamPaths = new Map<() => void, LinkPath>();
  const streams = new Set<() => void>();

  const close = (): void => {
    if (closed) return;
    closed = true;
    pulse?.stop();
    listener.close();
    for (const end of [...streams]) end();
  };
  const lose = (error: CoveyError): void => {
    if (closed) return;
    close();
    if (opened) options.onLost(error);
  };

  const listener: Server = createServer({ allowHalfOpen: true, noDelay: true }, (local) => {
    if (closed || streams.size >= maxStreams) {
      local.destroy();
      return;
    }
    void carry(local);
  });
  listener.on('error', (error) => lose(new CoveyError('internal_error', error.message, {}, error)));

  /** One connection of llama-server's through a tunnel of its own. */
  const carry = async (local: Socket): Promise<void> => {
    const opening = new AbortController();
    let end = (): void => opening.abort(new CoveyError('cancelled', 'The link was closed.'));
    const forget = (): void => {
      streams.delete(entry);
      streamPaths.delete(entry);
    };
    const entry = (): void => end();
    streams.add(entry);
    local.on('error', () => undefined);
    local.once('close', end);
    try {
      const limits = { timeoutMs: request.connectTimeoutMs, signal: opening.signal };
      const { socket: remote, path } = await reach.open(target('engine'), limits);
      local.off('close', end);
      streamPaths.set(entry, path);
      // Both go the same way, so that the round trip which is shown is that of the bytes.
      if (path !== pulsePath) pulse?.reopen();
      end = splice(local, remote, {
        onBytes: (from, bytes) => traffic.add(from, bytes),
        paceMs: (from, bytes) => (from === 'near' ? options.upload.take(bytes) : 0),
        onEnd(first, error) {
          forget();
          // The engine ends its connections itself; when the stage does, it is gone.
          if (first === 'far') lose(stageLost(request, error));
        },
      });
      local.once('close', forget);
    } catch (error) {
      forget();
      local.destroy();
      if (!opening.signal.aborted) lose(stageLost(request, error));
    }
  };

  let pulse: PulseMonitor | null = null;
  try {
    const port = await listen(listener);
    await new Promise<void>((resolve, reject) => {
      pulse = watchPulse(firstPulse.socket, {
        pulseMs: options.pulseMs,
        pulseLostMs: options.pulseLostMs,
        now: () => performance.now(),
        async open(timeoutMs, pulseSignal) {
          const { socket, path } = await reach.open(target('pulse'), { timeoutMs, signal: pulseSignal });
          pulsePath = path;
          return socket;
        },
        isRefusal: (error) => error instanceof CoveyError && refusals.has(error.code),
        onAnswer: resolve,
        onLost: (reason) => {
          const error = reason === null ? silent(request, options.pulseLostMs) : stageLost(request, reason);
          reject(unreachable(request, error));
          lose(error);
        },
      });
      signal.addEventListener('abort', () => reject(CoveyError.from(signal.reason)), { once: true });
    });
    opened = true;
    return {
      port,
      beat: () => ({
        operation: options.operation,
        stageEngineId: request.stageEngineId,
        path: [...streamPaths.values()].at(-1) ?? pulsePath,
        connected: !closed,
        sentBytes: traffic.sentBytes,
        receivedBytes: traffic.receivedBytes,
        idleMs: traffic.idleMs,
        lastSender: traffic.lastSender,
        rttMs: pulse?.rttMs ?? null,
        bytesPerS: traffic.bytesPerS,
      }),
      close,
    };
  } catch (error) {
    firstPulse.socket.destroy();
    close();
    throw error;
  }
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: '127.0.0.1', port: 0 }, () => {
      server.off('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : 0);
    });
  });
}

function unreachable(request: LinkRequest, error: CoveyError): CoveyError {
  if (error.code === 'stage_unreachable' || error.code === 'cancelled') return error;
  return new CoveyError(
    'stage_unreachable',
    `The stage on ${request.peerName} cannot be used: ${error.message}`,
    {},
    error,
  );
}

function stageLost(request: LinkRequest, cause: unknown): CoveyError {
  const reason = cause instanceof Error ? `: ${cause.message}` : '.';
  return new CoveyError('stage_lost', `The stage on ${request.peerName} is gone${reason}`, {}, cause);
}

function silent(request: LinkRequest, pulseLostMs: number): CoveyError {
  const seconds = Math.round(pulseLostMs / 100) / 10;
  return new CoveyError('stage_lost', `The stage on ${request.peerName} has not answered for ${seconds} s.`);
}
