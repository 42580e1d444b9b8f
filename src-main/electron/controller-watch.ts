import { setTimeout as delay } from 'node:timers/promises';
import type { ApiEvent } from '#shared/api/schema.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { createApiClient } from '../cli/api-client.ts';

/** What the shell knows of its own controller, as one more client of the API. */
export interface ControllerWatch {
  /** Machines that ask to join now. */
  readonly asking: number;
  close(): void;
}

const retryMs = 2_000;

/**
 * Follows the events of the controller in this process, from now on.
 * @param onEvent hears each event once
 */
export function watchController(options: {
  readonly apiAddress: string;
  readonly token: string;
  readonly onEvent: (event: ApiEvent) => void;
  readonly logger: Logger;
}): ControllerWatch {
  const client = createApiClient(options.apiAddress, { token: options.token });
  const ending = new AbortController();
  const { signal } = ending;
  let asking = 0;

  const count = async (): Promise<void> => {
    const { pending } = await client.call('pending', { signal });
    asking = pending.filter(({ approved }) => !approved).length;
  };
  const follow = async (): Promise<void> => {
    let lastId: number | null = null;
    while (!signal.aborted) {
      try {
        await count();
        for await (const event of client.events({ afterId: lastId, signal })) {
          lastId = event.id ?? lastId;
          if (event.kind.includes('join')) await count();
          options.onEvent(event);
        }
      } catch (error) {
        if (!signal.aborted) options.logger.debug('events are away', { reason: String(error) });
      }
      await delay(retryMs, null, { signal }).catch(() => undefined);
    }
  };
  // Requests to join expire without an event.
  const timer = setInterval(() => void count().catch(() => undefined), 30_000);
  void follow();
  return {
    get asking() {
      return asking;
    },
    close() {
      clearInterval(timer);
      ending.abort();
      client.close();
    },
  };
}
