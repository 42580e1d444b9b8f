import type { ServerResponse } from 'node:http';
import type { ApiEvent } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { check } from '../../../nodejs/http/body.ts';
import type { HttpCall } from '../../../nodejs/http/http-call.ts';
import { z } from 'zod';
import type { ControllerService } from '../ports.ts';

const maxSubscribers = 64;
const heartbeatMs = 15_000;
/** What may wait for a subscriber that does not read; past events it asked for come on top. */
const waitingBytes = 1024 * 1024;

const followHeaders = z.object({ 'last-event-id': z.coerce.number().int().nonnegative().optional() });

const flag = z.enum(['0', '1']).default('0');
const followQuery = z.strictObject({ live: flag, logs: flag });

/**
 * `GET /api/events`: server-sent events; `Last-Event-ID` brings back those since then that are still kept, `?live=1`
 * asks for live figures. `?logs=1` brings the machines' log lines and nothing else.
 */
export function createEventStream(service: ControllerService): (call: HttpCall) => void {
  let subscribers = 0;
  const textOf = createTextOf();
  return ({ req, res, query, stopping, principal }) => {
    if (subscribers >= maxSubscribers) {
      const why = `${maxSubscribers} programs follow the events already; close one of them first.`;
      throw new CoveyError('too_many_requests', why);
    }
    const lastId = check(followHeaders, req.headers, 'The headers')['last-event-id'] ?? null;
    const { live, logs } = check(followQuery, Object.fromEntries(query), 'The query');

    res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' });
    // A comment at once, so that the subscriber knows that it is connected.
    res.write(': covey events\n\n');
    subscribers++;
    let limitBytes = Infinity;
    const listener = (event: ApiEvent): void => send(res, textOf(event), limitBytes);
    const unsubscribe =
      logs === '1' ? [service.subscribeLogs(listener)] : [service.subscribe(lastId, listener)];
    if (live === '1') unsubscribe.push(service.subscribeLive(listener));
    limitBytes = res.writableLength + waitingBytes;
    const heartbeat = setInterval(() => res.write(': alive\n\n'), heartbeatMs);
    const end = (): void => void res.end();
    const ends = [stopping, principal.revoked].filter((signal) => signal !== null);
    for (const signal of ends) signal.addEventListener('abort', end);
    if (ends.some((signal) => signal.aborted)) end();
    res.once('close', () => {
      subscribers--;
      for (const leave of unsubscribe) leave();
      clearInterval(heartbeat);
      for (const signal of ends) signal.removeEventListener('abort', end);
    });
  };
}

/** An event goes to all subscribers one after the other: it is put into text once. */
function createTextOf(): (event: ApiEvent) => string {
  let last: ApiEvent | null = null;
  let text = '';
  return (event) => {
    if (event === last) return text;
    const id = event.id === null ? '' : `id: ${event.id}\n`;
    text = `${id}data: ${JSON.stringify(event)}\n\n`;
    last = event;
    return text;
  };
}

function send(res: ServerResponse, text: string, limitBytes: number): void {
  if (res.destroyed || res.writableEnded) return;
  res.write(text);
  // A subscriber that does not read is cut off; it can come back with Last-Event-ID.
  if (res.writableLength > limitBytes) res.destroy();
}
