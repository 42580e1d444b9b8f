import { describe, expect, it } from 'vitest';
import type { ApiEvent, EventHistory } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { createEventFeed, type EventFeed } from './event-feed.ts';
import { noFilter } from './event-window.ts';

const event = (id: number | null, level: ApiEvent['level'] = 'info'): ApiEvent => ({
  id,
  at: 1,
  kind: 'k',
  level,
  message: `Event ${id}`,
});

/** A controller with events 1 to `last`. */
function history(last: number, page = 3): (before: number | null) => Promise<EventHistory> {
  return async (before) => {
    const from = (before ?? last + 1) - 1;
    const ids = Array.from({ length: Math.min(page, from) }, (_, index) => from - index);
    return { events: ids.map((id) => event(id)), more: from > page };
  };
}
const ids = (feed: EventFeed): number[] =>
  Array.from({ length: feed.rows.length }, (_, index) => feed.rows.row(index)?.id ?? -1);

describe('the event feed', () => {
  it('reads page after page until there is no more', async () => {
    const feed = createEventFeed({ filter: noFilter, fetchPage: history(7) });
    await feed.fetchOlder();
    expect(ids(feed)).toEqual([7, 6, 5]);
    await feed.fetchOlder();
    await feed.fetchOlder();
    expect(ids(feed)).toEqual([7, 6, 5, 4, 3, 2, 1]);
    expect(feed.state().hasMore).toBe(false);
    const { version } = feed.state();
    await feed.fetchOlder();
    expect(feed.state().version).toBe(version);
  });

  it('shows what happens, also before its first page has come', async () => {
    const feed = createEventFeed({ filter: noFilter, fetchPage: history(7) });
    const first = feed.fetchOlder();
    feed.push([event(8), event(null), event(9)]);
    await first;
    expect(ids(feed)).toEqual([9, 8, 7, 6, 5]);
  });

  it('holds back what happens while it stands still', async () => {
    const feed = createEventFeed({ filter: { ...noFilter, levels: ['warn'] }, fetchPage: history(0) });
    feed.follow(false);
    feed.push([event(8, 'warn'), event(9)]);
    feed.push([event(10, 'warn')]);
    expect(feed.state().held).toBe(2);
    expect(ids(feed)).toEqual([]);
    feed.follow(true);
    expect(feed.state().held).toBe(0);
    expect(ids(feed)).toEqual([10, 8]);
  });

  it('asks once at a time, and again after a failure', async () => {
    let calls = 0;
    const feed = createEventFeed({
      filter: noFilter,
      fetchPage: async () => {
        calls++;
        if (calls === 1) throw new CoveyError('timeout', 'slow');
        return { events: [event(1)], more: false };
      },
    });
    await Promise.all([feed.fetchOlder(), feed.fetchOlder()]);
    expect(calls).toBe(1);
    expect(feed.state()).toMatchObject({ error: { code: 'timeout' }, isFetching: false, hasMore: true });
    await feed.fetchOlder();
    expect(ids(feed)).toEqual([1]);
    expect(feed.state().error).toBeNull();
  });

  it('tells those who listen', () => {
    const feed = createEventFeed({ filter: noFilter, fetchPage: history(0) });
    let told = 0;
    const stop = feed.subscribe(() => told++);
    feed.push([event(1)]);
    feed.push([event(1)]);
    expect(told).toBe(1);
    stop();
    feed.push([event(2)]);
    expect(told).toBe(1);
  });
});
