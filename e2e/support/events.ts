import type { ApiEvent } from '../../src-main/shared/api/schema.ts';
import type { RunningController } from './cluster.ts';
import { waitFor } from './wait.ts';

/** All events that the controller still has, oldest first. */
export async function eventsOf(controller: RunningController): Promise<ApiEvent[]> {
  const stop = new AbortController();
  const events: ApiEvent[] = [];
  // The stream does not say where the past ends: its silence does.
  let silence = setTimeout(() => stop.abort(), 2_000);
  for await (const event of controller.client.events({ afterId: 0, signal: stop.signal })) {
    events.push(event);
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), 250);
  }
  clearTimeout(silence);
  return events;
}

/** Waits until an event of that kind (and with that text) is in the list. */
export async function untilEvent(
  controller: RunningController,
  kind: string,
  text: RegExp = /./,
  timeoutMs = 15_000,
): Promise<ApiEvent> {
  return waitFor(
    `an event ${kind} ${text.source}`,
    async () => {
      const events = await eventsOf(controller);
      return events.find((event) => event.kind === kind && text.test(event.message));
    },
    timeoutMs,
    100,
  );
}
