import type { TLSSocket } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { RelayPass } from '#shared/host/transport.ts';
import type { LogLevel } from '#shared/lib/logger.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { splice } from '../splice.ts';

/** The controller's part in a relay: joins two members' connections that carry the same token, if it may. */
export interface RelayExchange {
  allow(pass: RelayPass): void;
  /**
   * `from` wants its connection joined to the one of `peer`. Resolves when the other has come too and bytes pass.
   * Rejects with `dial_refused`, `timeout`, `too_many_requests`, or `cancelled` when the other came and went.
   */
  meet(socket: TLSSocket, from: NodeId, peer: NodeId, token: string): Promise<void>;
  readonly open: number;
  close(): void;
}

export interface RelayLimits {
  /** Joined connections at once. */
  readonly relays: number;
  /** Passes and early connections at once, in all, and early ones of one member. */
  readonly meetings: number;
  readonly earlyPerMember: number;
  /** The one that asks may be quicker than its pass. */
  readonly earlyMs: number;
}

export const relayLimits: RelayLimits = {
  relays: 256,
  meetings: 512,
  earlyPerMember: 16,
  earlyMs: 3_000,
};

interface Meeting {
  pass: RelayPass | null;
  first: Waiting | null;
  /** One came in time and has gone: the other need not wait. */
  left: boolean;
  timer: NodeJS.Timeout;
}

interface Waiting {
  readonly socket: TLSSocket;
  readonly from: NodeId;
  readonly peer: NodeId;
  readonly accept: () => void;
  readonly refuse: (error: CoveyError) => void;
  /** Its socket belongs to nobody again. */
  readonly release: () => void;
}

export function createRelayExchange(options: {
  /** Said on both connections before the first byte is passed on. */
  readonly accepted: Buffer;
  readonly log: (level: LogLevel, message: string) => void;
  readonly limits?: RelayLimits;
}): RelayExchange {
  const limits = options.limits ?? relayLimits;
  const meetings = new Map<string, Meeting>();
  const relays = new Set<() => void>();

  const end = (token: string, error: CoveyError): void => {
    const meeting = meetings.get(token);
    if (!meeting) return;
    clearTimeout(meeting.timer);
    meetings.delete(token);
    meeting.first?.refuse(error);
  };
  const endLater = (token: string, ms: number, error: () => CoveyError): NodeJS.Timeout => {
    const timer = setTimeout(() => end(token, error()), ms);
    timer.unref();
    return timer;
  };

  const join = (a: Waiting, b: Waiting): void => {
    a.release();
    const names = `${a.from.slice(0, 12)} and ${b.from.slice(0, 12)}`;
    let bytes = 0;
    a.socket.write(options.accepted);
    b.socket.write(options.accepted);
    a.accept();
    b.accept();
    const stop = splice(a.socket, b.socket, {
      onBytes: (_from, count) => void (bytes += count),
      onEnd() {
        relays.delete(stop);
        options.log('debug', `the relay between ${names} ended after ${bytes} bytes`);
      },
    });
    relays.add(stop);
    options.log('info', `relaying between ${names} (${relays.size} relays are open)`);
  };

  return {
    allow(pass) {
      const { token } = pass;
      const meeting = meetings.get(token);
      const expire = (): NodeJS.Timeout => endLater(token, pass.ttlMs, peerAbsent);
      if (!meeting) {
        if (meetings.size < limits.meetings)
          meetings.set(token, { pass, first: null, left: false, timer: expire() });
        return;
      }
      if (meeting.pass) return;
      clearTimeout(meeting.timer);
      if (meeting.first && !fits(pass, meeting.first)) {
        end(token, refused());
        return;
      }
      meeting.pass = pass;
      meeting.timer = expire();
    },
    meet: (socket, from, peer, token) =>
      new Promise((resolve, reject) => {
        // Whoever waits says nothing, and is read only to see its end.
        const leave = (): void => {
          waiting.release();
          const current = meetings.get(token);
          if (current?.first !== waiting) return;
          if (!current.pass) return end(token, gone());
          current.first = null;
          current.left = true;
          reject(gone());
        };
        const waiting: Waiting = {
          socket,
          from,
          peer,
          accept: resolve,
          refuse(error) {
            waiting.release();
            reject(error);
          },
          release: () => void socket.off('data', leave).off('end', leave).off('close', leave),
        };
        const wait = (): void => void socket.on('data', leave).on('end', leave).on('close', leave);

        const meeting = meetings.get(token);
        if (!meeting) {
          const early = [...meetings.values()].filter(({ first }) => first?.from === from).length;
          if (meetings.size >= limits.meetings || early >= limits.earlyPerMember) return reject(tooMany());
          meetings.set(token, {
            pass: null,
            first: waiting,
            left: false,
            timer: endLater(token, limits.earlyMs, refused),
          });
          return wait();
        }
        const { pass, first } = meeting;
        // Without a pass the second has no more right than the first; with one both must be named in it.
        if (!pass || !fits(pass, waiting) || first?.from === from) return reject(refused());
        if (meeting.left) {
          end(token, gone());
          return reject(gone());
        }
        if (!first) {
          meeting.first = waiting;
          return wait();
        }
        clearTimeout(meeting.timer);
        meetings.delete(token);
        if (relays.size >= limits.relays) {
          first.refuse(tooMany());
          return reject(tooMany());
        }
        return join(first, waiting);
      }),
    get open() {
      return relays.size;
    },
    close() {
      for (const token of [...meetings.keys()]) {
        end(token, new CoveyError('shutting_down', 'The controller is shutting down.'));
      }
      for (const stop of [...relays]) stop();
      relays.clear();
    },
  };
}

function fits({ between }: RelayPass, { from, peer }: Waiting): boolean {
  const [a, b] = between;
  return (from === a && peer === b) || (from === b && peer === a);
}

function refused(): CoveyError {
  return new CoveyError('dial_refused', 'The controller has not allowed this relay.');
}

function gone(): CoveyError {
  return new CoveyError('cancelled', 'The other side has gone.');
}

function peerAbsent(): CoveyError {
  return new CoveyError('timeout', 'The other side did not come to the relay in time.');
}

function tooMany(): CoveyError {
  return new CoveyError('too_many_requests', 'The controller relays as many connections as it may.');
}
