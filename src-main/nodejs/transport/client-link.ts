import type { LinkObservation } from '#shared/domain/engine.ts';
import type { CoveyError } from '#shared/errors.ts';
import type { LinkBeat } from '#shared/host/transport.ts';
import type { Link } from './transport.ts';

/** A link as its transport process reports it. */
export interface ClientLink {
  readonly link: Link;
  beat(beat: LinkBeat): void;
  lost(error: CoveyError): void;
}

/** @param close tells the transport process; called at most once, not after a loss */
export function createClientLink(port: number, first: LinkBeat, close: () => void): ClientLink {
  let latest = first;
  let latestAt = performance.now();
  let loss: CoveyError | null = null;
  let open = true;
  const listeners: Array<(reason: CoveyError) => void> = [];
  return {
    beat(beat) {
      latest = beat;
      latestAt = performance.now();
    },
    lost(error) {
      if (!open) return;
      open = false;
      loss = error;
      for (const listener of listeners) listener(error);
    },
    link: {
      stageEngineId: first.stageEngineId,
      port,
      observe(): LinkObservation {
        const { operation: _, idleMs, ...observation } = latest;
        return {
          ...observation,
          connected: open && latest.connected,
          idleMs: idleMs === null ? null : Math.round(idleMs + performance.now() - latestAt),
        };
      },
      onLost(listener) {
        listeners.push(listener);
        const known = loss;
        if (known) queueMicrotask(() => listener(known));
      },
      close() {
        if (!open) return;
        open = false;
        close();
      },
    },
  };
}
