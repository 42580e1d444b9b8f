import type { QueryClient } from '@tanstack/react-query';
import type { ApiAnswer } from '#shared/api/calls.ts';
import type { ApiEvent } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../api-client/api-client.ts';
import { setConnection } from '../stores/connection.ts';
import { addEvents, addLive } from '../stores/live.ts';
import { createInvalidator, routesOf, withProgress } from './invalidate.ts';

const firstRetryMs = 500;
const longestRetryMs = 5_000;
const batchMs = 200;

/**
 * Follows the server's events until the signal: live figures and progress go into what is shown, anything else
 * makes the lists that it is about be asked for again. Comes back by itself, from the last event that it saw, and
 * then asks for everything again.
 */
export async function followEvents(api: ApiClient, client: QueryClient, signal: AbortSignal): Promise<void> {
  const invalidator = createInvalidator(client);
  const shown = batched(addEvents);
  signal.addEventListener('abort', () => {
    invalidator.stop();
    shown.stop();
  });
  const listeners = new Set<() => void>();
  const wake = (): void => listeners.forEach((listener) => listener());
  addEventListener('online', wake, { signal });
  document.addEventListener('visibilitychange', wake, { signal });

  let afterId: number | null = null;
  let retryMs = firstRetryMs;
  let wasOpen = false;
  let lostAt: number | null = null;
  while (!signal.aborted) {
    let isFirstLive = true;
    let why = 'The connection to Covey ended.';
    try {
      const onOpen = (): void => {
        retryMs = firstRetryMs;
        lostAt = null;
        setConnection({ phase: 'live' });
        // Whatever was missed, also what no event tells.
        if (wasOpen) void client.invalidateQueries();
        wasOpen = true;
      };
      for await (const event of api.events({ afterId, signal, onOpen })) {
        if (event.id !== null) afterId = event.id;
        if (event.live !== undefined) {
          addLive(event.live, isFirstLive);
          isFirstLive = false;
        }
        if (event.id !== null) shown.add(event);
        showProgress(client, event);
        invalidator.add(routesOf(event));
      }
    } catch (error) {
      const failure = CoveyError.from(error);
      why = failure.message;
      // The page for logging in shows now.
      if (failure.code === 'token_invalid') return;
    }
    if (signal.aborted) return;
    lostAt ??= Date.now();
    setConnection({ phase: 'lost', since: lostAt, why });
    await pause(retryMs, listeners, signal);
    retryMs = Math.min(longestRetryMs, retryMs * 2);
  }
}

/** Hands on what came in a while together: a burst of events draws the page a few times, not a hundred. */
function batched(use: (events: readonly ApiEvent[]) => void) {
  let waiting: ApiEvent[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    timer = undefined;
    const events = waiting;
    waiting = [];
    use(events);
  };
  return {
    add(event: ApiEvent) {
      waiting.push(event);
      timer ??= setTimeout(flush, batchMs);
    },
    stop() {
      clearTimeout(timer);
    },
  };
}

function showProgress(client: QueryClient, event: ApiEvent): void {
  if (event.stages === undefined) return;
  client.setQueryData<ApiAnswer<'deployments'>>(['deployments'], (known) =>
    known === undefined ? known : { deployments: [...withProgress(known.deployments, event)] },
  );
}

/** Until the time is over, or the window is looked at or the network is back. */
function pause(ms: number, wakers: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      wakers.delete(done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    wakers.add(done);
    signal.addEventListener('abort', done, { once: true });
  });
}
