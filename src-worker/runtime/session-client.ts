import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs, type BackoffPolicy } from '#shared/lib/backoff.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { CoveyError, type ErrorBody, type ErrorCode } from '#shared/errors.ts';
import {
  controllerFrame,
  type ControllerFrame,
  type HelloFrame,
  type WorkerFrame,
} from '#shared/protocol/session.ts';
import type { LendState } from '#shared/domain/lend.ts';
import type { Telemetry } from '#shared/domain/node.ts';
import type { PeerSession } from '../../src-main/nodejs/transport/transport.ts';

type Welcome = Extract<ControllerFrame, { type: 'welcome' }>;
/** Frames that the client does not handle itself. */
export type SessionFrame = Exclude<ControllerFrame, { type: 'welcome' | 'refused' | 'ack' }>;

export interface SessionClient {
  /** Sends within a welcomed session; false when there is none. */
  send(frame: WorkerFrame): boolean;
  /** A heartbeat before its time: something in it must be known now. Nothing happens without a session. */
  beat(): void;
  /** What stands between this worker and its controller; null while a session is welcomed. */
  readonly trouble: ErrorBody | null;
  readonly welcome: Welcome | null;
  /** There is a new way to the controller: without a session it is tried soon rather than after the whole pause. */
  nudge(): void;
  /**
   * This machine has other addresses now. A session, or an attempt at one, from an address that is `lost` is
   * dropped, and without a session the controller is dialled at once.
   */
  moved(lost: ReadonlySet<string>): void;
  /** Says goodbye and dials no more. Resolves when the session has closed or after a second. */
  close(reason: string): Promise<void>;
}

export interface SessionClientOptions {
  readonly dial: (signal: AbortSignal) => Promise<PeerSession>;
  /** Made anew for every session. */
  readonly hello: () => Promise<HelloFrame>;
  readonly heartbeat: () => {
    readonly telemetry: Telemetry;
    readonly problems: string[];
    readonly lend: LendState;
  };
  readonly onWelcome: (welcome: Welcome, session: PeerSession) => void;
  /** @param at the controller's clock, epoch ms */
  readonly onAck: (at: number) => void;
  readonly onFrame: (frame: SessionFrame) => void;
  /** The controller will not have this worker, and says why. */
  readonly onRefused: (error: ErrorBody) => void;
  /** Once per welcomed session. */
  readonly onLost: () => void;
  readonly logger: Logger;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly delays?: Partial<SessionDelays>;
}

export interface SessionDelays {
  readonly retry: BackoffPolicy;
  /** After a refusal that, in the long run, only a person can change. */
  readonly refused: BackoffPolicy;
  /** How long the controller may take to answer a hello. */
  readonly welcomeMs: number;
}

const defaultDelays: SessionDelays = {
  retry: { firstMs: 500, maxMs: 10_000, factor: 1.7, jitter: 0.5 },
  refused: { firstMs: 2_000, maxMs: 120_000, factor: 2.5, jitter: 0.3 },
  welcomeMs: 10_000,
};

/**
 * Refusals that the same worker will get again until somebody does something. Not always at once: a controller
 * that is still starting knows no member yet, so the first pauses are short.
 */
const lasting: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'node_removed',
  'not_a_member',
  'not_the_controller',
  'controller_key_mismatch',
  'protocol_version_mismatch',
  'session_replaced',
  'identity_in_use',
]);

/**
 * Keeps one session to the controller: dials, says hello, sends heartbeats, and starts over when the session
 * ends or falls silent. A lost connection is dialled again within seconds; a refusal is logged in its own words
 * once and tried again slowly.
 */
export function createSessionClient(options: SessionClientOptions): SessionClient {
  const { logger } = options;
  const delays = { ...defaultDelays, ...options.delays };
  const closing = new AbortController();
  /** Ends the attempt that is under way, from dialling to the end of its session. */
  let drop: ((lost: ReadonlySet<string>) => void) | null = null;
  let wake: (() => void) | null = null;
  let hurried = false;
  let active: {
    readonly session: PeerSession;
    readonly welcome: Welcome;
    readonly beat: () => void;
  } | null = null;
  let trouble: ErrorBody | null = { code: 'controller_unreachable', message: 'not connected yet' };
  let lastLogged = '';

  const note = (error: CoveyError): void => {
    trouble = error.toBody();
    // The same trouble every few seconds is said once.
    if (lastLogged === error.message) return;
    lastLogged = error.message;
    logger.warn('no session with the controller', { code: error.code, reason: error.message });
  };

  const sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    await delay(ms, undefined, { signal }).catch(() => undefined);
  };

  /** Shorter when somebody hurries, but however often they do, some time lies between two attempts. */
  const pause = async (ms: number): Promise<void> => {
    const startedAt = performance.now();
    if (!hurried) {
      const resting = new AbortController();
      wake = () => resting.abort();
      await sleep(ms, resting.signal);
      wake = null;
    }
    hurried = false;
    const leftMs = Math.min(ms, delays.retry.firstMs) - (performance.now() - startedAt);
    if (leftMs > 0) await sleep(leftMs, closing.signal);
  };

  /** Dials unless this machine moves meanwhile. */
  const attempt = async (): Promise<{ readonly error: CoveyError; readonly welcomed: boolean }> => {
    const dialling = new AbortController();
    const abort = (): void => dialling.abort(closing.signal.reason);
    closing.signal.addEventListener('abort', abort, { once: true });
    drop = () => dialling.abort(movedAway());
    try {
      const hello = await options.hello();
      const session = await options.dial(dialling.signal);
      return await converse(session, hello);
    } catch (error) {
      const thrown: unknown = dialling.signal.aborted ? dialling.signal.reason : error;
      return { error: CoveyError.from(thrown), welcomed: false };
    } finally {
      drop = null;
      closing.signal.removeEventListener('abort', abort);
    }
  };

  const run = async (): Promise<void> => {
    let failures = 0;
    let refusals = 0;
    while (!closing.signal.aborted) {
      const end = await attempt();
      if (closing.signal.aborted) return;
      note(end.error);
      const refused = lasting.has(end.error.code);
      if (end.welcomed || refused) failures = 0;
      if (end.welcomed || !refused) refusals = 0;
      if (end.error instanceof MovedError) failures = refusals = 0;
      else {
        await pause(
          refused
            ? backoffMs(delays.refused, refusals++, options.random())
            : backoffMs(delays.retry, failures++, options.random()),
        );
      }
    }
  };

  /** One session from hello to its end. */
  const converse = (
    session: PeerSession,
    hello: HelloFrame,
  ): Promise<{ error: CoveyError; welcomed: boolean }> =>
    new Promise((resolve) => {
      let welcomed = false;
      let refusal: CoveyError | null = null;
      let over = false;
      let seq = 0;
      let ackedAt = performance.now();
      let beat: NodeJS.Timeout | null = null;
      const unanswered = setTimeout(() => {
        finish(
          new CoveyError('timeout', `the controller did not answer within ${delays.welcomeMs / 1000} s`),
        );
      }, delays.welcomeMs);

      const finish = (error: CoveyError): void => {
        if (over) return;
        over = true;
        clearTimeout(unanswered);
        if (beat) clearInterval(beat);
        if (active?.session === session) active = null;
        session.close();
        if (welcomed) options.onLost();
        resolve({ error, welcomed });
      };

      const { localAddress } = session;
      drop = (lost) => {
        if (localAddress !== null && lost.has(localAddress)) finish(movedAway());
      };

      const heartbeat = (silenceMs: number): void => {
        if (performance.now() - ackedAt > silenceMs) {
          finish(
            new CoveyError(
              'timeout',
              `the controller has not answered for ${Math.round(silenceMs / 1000)} s`,
            ),
          );
          return;
        }
        seq += 1;
        session.send(
          JSON.stringify({ type: 'heartbeat', seq, ...options.heartbeat() } satisfies WorkerFrame),
        );
      };

      const receive = (frame: ControllerFrame): void => {
        switch (frame.type) {
          case 'welcome': {
            if (welcomed) return;
            welcomed = true;
            clearTimeout(unanswered);
            const beatNow = (): void => heartbeat(frame.silenceMs);
            active = { session, welcome: frame, beat: beatNow };
            trouble = null;
            lastLogged = '';
            ackedAt = performance.now();
            beat = setInterval(beatNow, frame.heartbeatMs);
            logger.info('connected to the controller', {
              controller: frame.controllerName,
              name: frame.name,
            });
            options.onWelcome(frame, session);
            return;
          }
          case 'refused':
            refusal = CoveyError.fromBody(frame.error);
            options.onRefused(frame.error);
            finish(refusal);
            return;
          case 'ack':
            ackedAt = performance.now();
            options.onAck(frame.at);
            return;
          case 'assignments':
          case 'members':
          case 'request':
          case 'cancel':
          case 'controller-addresses':
          case 'cluster-secret':
          case 'dial-order':
          case 'notice':
          case 'tasks':
          case 'artifact-sources':
          case 'artifact-grant':
          case 'artifacts-free':
            if (welcomed) options.onFrame(frame);
            return;
        }
      };

      session.onMessage((text) => {
        if (over) return;
        const frame = parseFrame(text);
        if (frame) receive(frame);
        else
          finish(
            new CoveyError(
              'invalid_request',
              'the controller sent a frame that this worker does not understand',
            ),
          );
      });
      session.onClose((reason) => {
        finish(
          refusal ?? reason ?? new CoveyError('controller_unreachable', 'the controller closed the session'),
        );
      });
      session.send(JSON.stringify(hello));
    });

  const running = run();

  return {
    send(frame) {
      if (!active) return false;
      active.session.send(JSON.stringify(frame));
      return true;
    },
    beat: () => active?.beat(),
    get trouble() {
      return trouble;
    },
    get welcome() {
      return active?.welcome ?? null;
    },
    nudge() {
      if (active) return;
      hurried = true;
      wake?.();
    },
    moved(lost) {
      if (drop) drop(lost);
      else {
        hurried = true;
        wake?.();
      }
    },
    async close(reason) {
      active?.session.send(JSON.stringify({ type: 'goodbye', reason } satisfies WorkerFrame));
      closing.abort();
      wake?.();
      active?.session.close();
      await Promise.race([running, delay(1_000, undefined, { ref: false })]);
    },
  };
}

/** The session is over because this machine is somewhere else now: no reason to wait with the next. */
class MovedError extends CoveyError {}

function movedAway(): MovedError {
  return new MovedError('controller_unreachable', 'this machine has another network address now');
}

function parseFrame(text: string): ControllerFrame | null {
  try {
    return controllerFrame.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
