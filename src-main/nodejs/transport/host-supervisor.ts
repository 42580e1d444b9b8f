import { backoffMs, type BackoffPolicy } from '#shared/lib/backoff.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Address } from '#shared/domain/node.ts';
import type { TransportCommand, TransportEvent, TransportInit } from '#shared/host/transport.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { HostProcess, ProcessHost } from '../process-host/process-host.ts';

export interface SupervisorOptions {
  readonly processHost: ProcessHost;
  /** Made anew for every process: the members and grants of that moment. */
  readonly init: () => TransportInit;
  readonly onEvent: (event: TransportEvent) => void;
  /** The process is gone with everything that it held; another is on its way. */
  readonly onDown: (error: CoveyError) => void;
  readonly logger: Logger;
}

export interface Supervisor {
  /** Starts the first process. Rejects when it cannot listen; later ones are tried for ever. */
  start(): Promise<Address | null>;
  /** false: there is no process that is ready; the command is dropped. */
  send(command: TransportCommand): boolean;
  readonly pid: number | undefined;
  stop(): Promise<void>;
}

const restart: BackoffPolicy = { firstMs: 100, maxMs: 10_000, factor: 2, jitter: 0.2 };
/** A process that lived this long was well: the next failure is a new one. */
const steadyMs = 60_000;
const readyMs = 15_000;
const stopMs = 3_000;
/** Silence of its beats after which a process counts as stuck. */
const stuckMs = 20_000;
const watchMs = 5_000;

/** Keeps one transport process running: restarts it when it dies or hangs, with growing pauses. */
export function createSupervisor(options: SupervisorOptions): Supervisor {
  const { logger } = options;
  let current: HostProcess | null = null;
  let ready = false;
  let stopping = false;
  let attempt = 0;
  let retry: NodeJS.Timeout | undefined;

  /** Resolves when the process is ready. It is restarted by itself once it has been. */
  const launch = (): Promise<Address | null> =>
    new Promise((resolve, reject) => {
      const startedAt = performance.now();
      const child = options.processHost.fork('transport-host', { label: 'transport' });
      current = child;
      let failure: CoveyError | null = null;
      const watch = watchBeats(() => {
        logger.error('the transport process does not answer, ending it');
        child.kill();
      });
      const late = setTimeout(() => {
        failure = new CoveyError('timeout', `The transport process was not ready within ${readyMs} ms.`);
        child.kill();
      }, readyMs);

      child.onMessage((message) => {
        const event = message as TransportEvent;
        watch.heard();
        if (event.type === 'ready') {
          clearTimeout(late);
          ready = true;
          resolve(event.clusterAddress);
        } else if (event.type === 'failed') {
          failure = CoveyError.fromBody(event.error);
          child.kill();
        } else if (event.type === 'log') {
          logger.log(event.level, event.message);
        } else if (current === child) {
          options.onEvent(event);
        }
      });
      child.onExit(({ detail }) => {
        clearTimeout(late);
        watch.stop();
        const wasReady = ready;
        if (current === child) {
          current = null;
          ready = false;
        }
        const error = failure ?? new CoveyError('internal_error', `The transport process ${detail}.`);
        reject(error);
        if (stopping || !wasReady) return;
        options.onDown(error);
        if (performance.now() - startedAt > steadyMs) attempt = 0;
        relaunch(error);
      });
      child.send({ type: 'init', init: options.init() } satisfies TransportCommand);
    });

  const relaunch = (error: CoveyError): void => {
    const pauseMs = backoffMs(restart, attempt, Math.random());
    attempt += 1;
    logger.error('the transport process ended, starting another', { reason: error.message, pauseMs });
    retry = setTimeout(() => {
      launch().then(
        () => logger.info('the transport process is up again'),
        (again: unknown) => {
          if (!stopping) relaunch(CoveyError.from(again));
        },
      );
    }, pauseMs);
  };

  return {
    start: launch,
    send(command) {
      if (!current || !ready) return false;
      current.send(command);
      return true;
    },
    get pid() {
      return current?.pid;
    },
    async stop() {
      stopping = true;
      clearTimeout(retry);
      const child = current;
      if (!child) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(() => {
          child.kill();
          resolve();
        }, stopMs);
        child.onExit(() => {
          clearTimeout(timer);
          resolve();
        });
        child.send({ type: 'stop' } satisfies TransportCommand);
      });
    },
  };
}

/** Counts silence only while this process itself was running (a laptop that slept, a debugger). */
function watchBeats(onStuck: () => void): { heard(): void; stop(): void } {
  let silentMs = 0;
  let tickedAt = performance.now();
  const timer = setInterval(() => {
    const at = performance.now();
    silentMs += Math.min(at - tickedAt, watchMs * 1.5);
    tickedAt = at;
    if (silentMs >= stuckMs) onStuck();
  }, watchMs);
  timer.unref();
  return {
    heard() {
      silentMs = 0;
    },
    stop: () => clearInterval(timer),
  };
}
