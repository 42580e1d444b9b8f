import { setTimeout as delay } from 'node:timers/promises';
import type { EngineId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { engineHostEvent, type EngineHostEvent, type EngineHostInit } from '#shared/host/engine-host.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { HostProcess, ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import { sweepEngine } from '../journal/sweep.ts';

/** What hosts tell, without their logs, and their end. */
export type SupervisedEvent =
  | { readonly type: 'told'; readonly engineId: EngineId; readonly event: ToldEvent }
  /** The host and everything it started are gone; `error` null: because it was told to stop. */
  | { readonly type: 'ended'; readonly engineId: EngineId; readonly error: ErrorBody | null };
export type ToldEvent = Exclude<EngineHostEvent, { type: 'hello' | 'log' }>;

export interface EngineSupervisor {
  start(init: EngineHostInit): void;
  /** Ignored when that engine has no host. */
  stop(engineId: EngineId, graceMs: number): void;
  /** Ends every host; resolves when they are gone, at the latest shortly after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

interface Supervised {
  readonly host: HostProcess;
  readonly logger: Logger;
  /** What the host gave as the reason of its end. */
  verdict: { readonly error: ErrorBody | null } | null;
  stopping: boolean;
  /** Looks without a message since the last one. */
  silentLooks: number;
  /** Pending forced end. */
  timer: NodeJS.Timeout | null;
}

const lookEveryMs = 5_000;
/** A host that says nothing for this many looks hangs; counted in looks, since a machine that slept has not looked. */
const silentLooksMax = 6;
/** What a host gets beyond its engine's grace to end it and itself. */
const marginMs = 2_000;

/**
 * Forks one engine host per engine and routes its messages. A host that crashes, hangs or does not end in time
 * is ended; the program that it leaves behind is ended by the launcher, and by the journal where that fails.
 * Nothing is started twice or again.
 */
export function createEngineSupervisor(options: {
  readonly processHost: ProcessHost;
  readonly logger: Logger;
  readonly journalDirectory: string;
  readonly onEvent: (event: SupervisedEvent) => void;
}): EngineSupervisor {
  const engines = new Map<EngineId, Supervised>();
  const endListeners = new Set<() => void>();

  const look = setInterval(() => {
    for (const supervised of engines.values()) {
      supervised.silentLooks += 1;
      if (supervised.silentLooks < silentLooksMax) continue;
      supervised.verdict ??= {
        error: { code: 'engine_crashed', message: 'the engine host stopped answering and was ended' },
      };
      supervised.host.kill();
    }
  }, lookEveryMs);
  look.unref();

  const forceAfter = (supervised: Supervised, waitMs: number): void => {
    if (supervised.timer) clearTimeout(supervised.timer);
    supervised.timer = setTimeout(() => supervised.host.kill(), waitMs);
  };

  const hear = (engineId: EngineId, supervised: Supervised, message: unknown): void => {
    supervised.silentLooks = 0;
    const parsed = engineHostEvent.safeParse(message);
    if (!parsed.success) {
      supervised.logger.warn('the engine host sent something unexpected', { reason: parsed.error.message });
      return;
    }
    const event = parsed.data;
    if (event.type === 'hello') return;
    if (event.type === 'log') {
      // An engine's ordinary chatter is detail to us.
      supervised.logger.log(event.level === 'info' ? 'debug' : event.level, event.message);
      return;
    }
    if (event.type === 'phase' && (event.phase === 'failed' || event.phase === 'stopped')) {
      supervised.verdict ??= { error: event.error };
      forceAfter(supervised, marginMs);
      return;
    }
    options.onEvent({ type: 'told', engineId, event });
  };

  const ended = async (engineId: EngineId, supervised: Supervised, detail: string): Promise<void> => {
    if (supervised.timer) clearTimeout(supervised.timer);
    const { verdict } = supervised;
    if (!verdict) await sweepEngine(options.journalDirectory, engineId, supervised.logger);
    engines.delete(engineId);
    const error = verdict
      ? verdict.error
      : supervised.stopping
        ? null
        : ({ code: 'engine_crashed', message: `the engine host ${detail}` } as const);
    options.onEvent({ type: 'ended', engineId, error });
    for (const listener of endListeners) listener();
  };

  return {
    start(init) {
      const { engineId } = init;
      if (engines.has(engineId)) return;
      let host: HostProcess;
      try {
        host = options.processHost.fork('engine-host', { label: `engine ${engineId}` });
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        options.onEvent({
          type: 'ended',
          engineId,
          error: { code: 'engine_start_failed', message: `the engine host could not be started: ${why}` },
        });
        return;
      }
      const supervised: Supervised = {
        host,
        logger: options.logger.child({ engine: engineId }),
        verdict: null,
        stopping: false,
        silentLooks: 0,
        timer: null,
      };
      engines.set(engineId, supervised);
      host.onMessage((message) => hear(engineId, supervised, message));
      host.onExit(({ detail }) => void ended(engineId, supervised, detail));
      host.send(init);
    },
    stop(engineId, graceMs) {
      const supervised = engines.get(engineId);
      if (!supervised) return;
      supervised.stopping = true;
      supervised.host.send({ type: 'stop', graceMs });
      forceAfter(supervised, graceMs + marginMs);
    },
    async close(graceMs) {
      for (const engineId of engines.keys()) this.stop(engineId, graceMs);
      const gone = new Promise<void>((resolve) => {
        const check = (): void => {
          if (engines.size === 0) resolve();
        };
        endListeners.add(check);
        check();
      });
      await Promise.race([gone, delay(graceMs + 2 * marginMs, undefined, { ref: false })]);
      clearInterval(look);
      for (const supervised of engines.values()) supervised.host.kill();
    },
  };
}
