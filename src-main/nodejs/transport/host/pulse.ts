import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

/**
 * The pulse, after the preamble: the leader sends one byte, a counter, every `pulseMs`; the stage sends it back.
 * It tells that the other machine and its transport process live and how long the way takes; engines are
 * watched by their streams and by their own worker.
 */
export function answerPulse(socket: TLSSocket, pulseLostMs: number): void {
  // A leader that vanished without a word must not leave its pulse behind.
  socket.setTimeout(pulseLostMs * 4, () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    if (chunk.length > maxPending) socket.destroy();
    else socket.write(chunk);
  });
  socket.once('end', () => socket.destroy());
}

/** A leader that could not send for a while may have several on the way at once. */
const maxPending = 64;

export interface PulseMonitor {
  /** ms between a byte and its echo, the last one. */
  readonly rttMs: number | null;
  /** Another connection takes the place of this one. */
  reopen(): void;
  stop(): void;
}

export interface PulseMonitorOptions {
  readonly pulseMs: number;
  readonly pulseLostMs: number;
  /** Opens a pulse connection, preamble accepted. Rejects when it cannot within `timeoutMs`. */
  readonly open: (timeoutMs: number, signal: AbortSignal) => Promise<Duplex>;
  /** Once: the peer was silent for `pulseLostMs`, or refused the pulse (then with its reason). */
  readonly onLost: (reason: unknown) => void;
  /** For every echo. */
  readonly onAnswer: () => void;
  /** Whether this refusal is the peer's last word; other failures are tried again until the time is over. */
  readonly isRefusal: (error: unknown) => boolean;
  /** Monotonic ms. */
  readonly now: () => number;
}

/**
 * Watches a peer over `first`. Silence is counted only while this process itself was running: a tick that came
 * late counts no more than a tick, because the echo may be waiting unread behind whatever kept us.
 */
export function watchPulse(first: Duplex, options: PulseMonitorOptions): PulseMonitor {
  const { pulseMs, pulseLostMs, now } = options;
  const stopped = new AbortController();
  let connection: Duplex | null = null;
  let silentMs = 0;
  let tickedAt = now();
  let counter = 0;
  const sentAt = new Map<number, number>();
  let rttMs: number | null = null;

  const lose = (reason: unknown): void => {
    if (stopped.signal.aborted) return;
    stop();
    options.onLost(reason);
  };
  const stop = (): void => {
    stopped.abort();
    clearInterval(timer);
    connection?.destroy();
  };

  const attach = (socket: Duplex): void => {
    connection = socket;
    sentAt.clear();
    socket.on('data', (chunk: Buffer) => {
      silentMs = 0;
      for (const byte of chunk) {
        const at = sentAt.get(byte);
        if (at === undefined) continue;
        sentAt.delete(byte);
        rttMs = now() - at;
        options.onAnswer();
      }
    });
    socket.on('error', () => undefined);
    socket.once('end', () => socket.destroy());
    socket.once('close', () => {
      if (connection !== socket) return;
      connection = null;
      void reconnect();
    });
    send();
  };

  const send = (): void => {
    // Nothing is queued on a way that is blocked: what stands in it is enough to be answered later.
    if (!connection || connection.writableLength > 0) return;
    counter = (counter + 1) & 0xff;
    sentAt.set(counter, now());
    connection.write(Buffer.of(counter));
  };

  const reconnect = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const startedAt = now();
      try {
        const socket = await options.open(Math.max(pulseMs, pulseLostMs - silentMs), stopped.signal);
        if (stopped.signal.aborted) socket.destroy();
        else attach(socket);
        return;
      } catch (error) {
        if (options.isRefusal(error)) return lose(error);
      }
      await pause(Math.max(0, pulseMs - (now() - startedAt)), stopped.signal);
    }
  };

  const tick = (): void => {
    const at = now();
    silentMs += Math.min(at - tickedAt, pulseMs * 1.5);
    tickedAt = at;
    if (silentMs >= pulseLostMs) lose(null);
    else send();
  };

  const timer = setInterval(tick, pulseMs);
  attach(first);
  return {
    get rttMs() {
      return rttMs;
    },
    reopen: () => void connection?.destroy(),
    stop,
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
