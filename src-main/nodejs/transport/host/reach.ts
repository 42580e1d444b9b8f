import { randomBytes } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { LinkPath } from '#shared/domain/engine.ts';
import { CoveyError } from '#shared/errors.ts';
import type { DialBack, RelayController } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { introduce, type Dialer, type StreamTarget } from '../dial.ts';
import { dialTls, type DialLimits } from '../dial-tls.ts';
import type { EndToEnd } from './end-to-end.ts';
import type { MemberTable } from './member-table.ts';
import { createPathMemory, type Way } from './path-memory.ts';
import { dialBackMs, type ReverseTable } from './reverse-table.ts';

export interface PeerStreamTarget extends StreamTarget {
  readonly nodeId: NodeId;
}

export interface ReachedStream {
  readonly socket: TLSSocket;
  readonly path: LinkPath;
}

/** Opens streams to members by whatever way works; see path-memory.ts for which is tried when. */
export interface Reach {
  /** As `Dialer.open`. Rejects with the target's `unreachable` and what every way came to. */
  open(target: PeerStreamTarget, limits: DialLimits): Promise<ReachedStream>;
  setRelay(controller: RelayController | null): void;
}

export interface ReachOptions {
  readonly dialer: Dialer;
  readonly members: MemberTable;
  readonly reverse: ReverseTable;
  readonly endToEnd: EndToEnd;
  /** This node has a port that a peer could dial. */
  readonly listening: boolean;
  /** This is the controller: it orders its members itself, and needs no relay. */
  readonly controlling: boolean;
  readonly relay: RelayController | null;
  /** To be carried to the controller. */
  readonly ask: (request: DialBack) => void;
}

/** What a way that has been asked for may take; a peer that is there needs a fraction of it. */
const askedMs = 5_000;
/** A direct way that comes late is not used, but remembered. */
const lateDirectMs = 3_000;

export function createReach(options: ReachOptions): Reach {
  const { dialer, members } = options;
  const memory = createPathMemory(() => performance.now());
  let relay = options.relay;

  /** The ways that exist here, to this peer. */
  const waysTo = (peer: NodeId): Way[] => {
    const ways: Way[] = ['direct'];
    const asking = options.controlling || (relay !== null && relay.nodeId !== peer);
    if (asking && options.listening) ways.push('reverse');
    if (asking && relay !== null) ways.push('relay');
    return ways;
  };

  const newRequest = (peer: NodeId, route: DialBack['route']): DialBack => ({
    peer,
    token: randomBytes(32).toString('hex'),
    route,
  });

  const reversed = async (target: PeerStreamTarget, signal: AbortSignal): Promise<TLSSocket> => {
    const request = newRequest(target.nodeId, 'reverse');
    const expected = options.reverse.expect(request.token, target.nodeId);
    const onAbort = (): void => expected.cancel(CoveyError.from(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    options.ask(request);
    return expected.connection.finally(() => signal.removeEventListener('abort', onAbort));
  };

  const relayed = async (target: PeerStreamTarget, signal: AbortSignal): Promise<TLSSocket> => {
    const controller = relay;
    if (!controller) throw new CoveyError('stage_unreachable', 'there is no controller');
    const request = newRequest(target.nodeId, 'relay');
    options.ask(request);
    const limits = { timeoutMs: dialBackMs, signal };
    const stream = await dialer.open(relayTarget(controller, request.token, target.nodeId), limits);
    return options.endToEnd.client(stream, target.nodeId, limits);
  };

  const go = async (
    way: Way,
    target: PeerStreamTarget,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<TLSSocket> => {
    if (way === 'direct') return dialTls(dialer.context, target, { timeoutMs, signal });
    const asking = new AbortController();
    const abort = (): void => asking.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    const timer = setTimeout(() => {
      asking.abort(new CoveyError('timeout', `nothing came within ${askedMs} ms`));
    }, askedMs);
    try {
      return await (way === 'reverse' ? reversed(target, asking.signal) : relayed(target, asking.signal));
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  };

  const connect = (target: PeerStreamTarget, limits: DialLimits): Promise<ReachedStream> =>
    new Promise((resolve, reject) => {
      const plan = memory.plan(target.nodeId, waysTo(target.nodeId));
      const over = new AbortController();
      const lateDirect = new AbortController();
      const failures = new Map<Way, CoveyError>();
      const timers = new Set<NodeJS.Timeout>();
      const waiting = [...plan];
      let running = 0;
      let won = false;

      const settle = (): void => {
        for (const timer of timers) clearTimeout(timer);
        clearTimeout(deadline);
        limits.signal?.removeEventListener('abort', onAbort);
      };
      const give = (way: Way, socket: TLSSocket): void => {
        if (won) {
          socket.destroy();
          if (way === 'direct') memory.works(target.nodeId, 'direct');
          return;
        }
        won = true;
        settle();
        memory.works(target.nodeId, way);
        over.abort(new CoveyError('cancelled', 'Another way was quicker.'));
        if (way !== 'direct') setTimeout(() => lateDirect.abort(over.signal.reason), lateDirectMs).unref();
        resolve({ socket, path: way });
      };
      const fail = (error: CoveyError): void => {
        if (won) return;
        won = true;
        settle();
        over.abort(error);
        lateDirect.abort(error);
        reject(error);
      };
      const start = (way: Way): void => {
        running += 1;
        const signal = way === 'direct' ? lateDirect.signal : over.signal;
        go(way, target, limits.timeoutMs, signal).then(
          (socket) => give(way, socket),
          (thrown: unknown) => {
            running -= 1;
            failures.set(way, CoveyError.from(thrown));
            // Nothing is waited for where nothing is tried.
            if (running === 0 && !won) next();
          },
        );
      };
      const next = (): void => {
        const way = waiting.shift();
        if (way) start(way.way);
        else fail(unreachable(target, failures));
      };
      const onAbort = (): void => fail(CoveyError.from(limits.signal?.reason));
      const deadline = setTimeout(() => {
        const late = new CoveyError(target.unreachable, `no answer within ${limits.timeoutMs} ms`);
        fail(unreachable(target, failures.size > 0 ? failures : new Map([['direct', late]])));
      }, limits.timeoutMs);

      if (limits.signal?.aborted) return onAbort();
      limits.signal?.addEventListener('abort', onAbort, { once: true });
      for (const step of plan) {
        if (step.afterMs === 0) continue;
        timers.add(
          setTimeout(() => {
            const index = waiting.indexOf(step);
            if (index < 0) return;
            waiting.splice(index, 1);
            start(step.way);
          }, step.afterMs),
        );
      }
      for (const step of plan) {
        if (step.afterMs > 0) continue;
        waiting.splice(waiting.indexOf(step), 1);
        start(step.way);
      }
      return undefined;
    });

  /** A member that is removed loses the streams that we opened to it, too. */
  const track = (nodeId: NodeId, socket: TLSSocket): void => {
    const member = members.get(nodeId);
    if (!member) return;
    socket.once('close', members.track(member, { expel: () => socket.destroy() }));
  };

  return {
    async open(target, limits) {
      const startedAt = performance.now();
      const reached = await connect(target, limits);
      if (reached.path !== 'reverse') track(target.nodeId, reached.socket);
      const timeoutMs = Math.max(1, limits.timeoutMs - (performance.now() - startedAt));
      const socket = await introduce(reached.socket, target, { ...limits, timeoutMs });
      return { socket, path: reached.path };
    },
    setRelay: (controller) => void (relay = controller),
  };
}

export function relayTarget(controller: RelayController, token: string, peer: NodeId): StreamTarget {
  return {
    ...controller,
    name: 'the relay',
    alpn: ALPN.tunnel,
    unreachable: 'controller_unreachable',
    preamble: { protocol: PROTOCOL_VERSION, target: 'relay', token, peer },
  };
}

const asked: Record<Exclude<Way, 'direct'>, string> = {
  reverse: 'asked to call back, it did not',
  relay: 'the controller could not relay',
};

/** The direct way's error names addresses; the others say why they did not help. */
function unreachable(target: PeerStreamTarget, failures: ReadonlyMap<Way, CoveyError>): CoveyError {
  const direct = failures.get('direct');
  const others = [...failures].flatMap(([way, { message }]) =>
    way === 'direct' ? [] : [`${asked[way]}: ${message.replace(/\.$/, '')}`],
  );
  const first = direct?.message ?? `${target.name} cannot be reached.`;
  const message = others.length === 0 ? first : `${first.replace(/\.$/, '')}; ${others.join('; ')}.`;
  return new CoveyError(target.unreachable, message, {}, direct);
}
