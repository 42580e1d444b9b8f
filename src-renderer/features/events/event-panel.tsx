import type { ApiEvent } from '#shared/api/schema.ts';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { Button, Loader, Switch } from '@mantine/core';
import { IconArrowUp, IconListSearch, IconTimeline } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { Section } from '../../components/page.tsx';
import { useApi } from '../../app/api-context.ts';
import { EmptyState, ErrorState } from '../../components/states.tsx';
import { formatCount, plural } from '../../format/format.ts';
import { useLive } from '../../stores/live.ts';
import { DownloadEvents } from './download.tsx';
import { createEventFeed, type EventFeed } from './event-feed.ts';
import { EventRow } from './event-row.tsx';
import { historyQuery, isFiltered, type EventFilter } from './event-window.ts';
import classes from './events.module.css';

const pageSize = 200;
const rowHeight = 37;
/** So near to the top counts as being there. */
const topPx = 4;

/** The list of events. It follows what happens while its top is in sight. */
export function EventPanel({
  filter,
  onClear,
}: {
  readonly filter: EventFilter;
  readonly onClear: () => void;
}) {
  const api = useApi();
  const feed = useMemo(
    () =>
      createEventFeed({
        filter,
        fetchPage: (before) => api.call('eventHistory', { query: historyQuery(filter, before, pageSize) }),
      }),
    [api, filter],
  );
  useLiveEvents(feed);
  const { held, isFetching, hasMore, error } = useSyncExternalStore(feed.subscribe, feed.state);
  const [wantsToFollow, setWantsToFollow] = useState(true);
  const count = feed.rows.length;
  const scroller = useRef<HTMLDivElement>(null);

  const virtualizer = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    getItemKey: (index) => feed.rows.row(index)?.id ?? index,
    overscan: 10,
  });
  const items = virtualizer.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && error === null && lastShown >= count - pageSize / 4) void feed.fetchOlder();
  }, [feed, hasMore, error, lastShown, count]);

  const isAtTop = (): boolean => (scroller.current?.scrollTop ?? 0) <= topPx;
  useEffect(() => feed.follow(wantsToFollow && isAtTop()), [feed, wantsToFollow]);
  const toTop = (): void => {
    scroller.current?.scrollTo({ top: 0 });
    setWantsToFollow(true);
    feed.follow(true);
  };

  return (
    <Section
      title="Events"
      flush
      lead={`${formatCount(count)}${hasMore ? ' or more' : ''} that fit`}
      actions={
        <div className={classes['tools']}>
          <Switch
            label="Follow"
            checked={wantsToFollow}
            onChange={(event) => setWantsToFollow(event.currentTarget.checked)}
          />
          <DownloadEvents filter={filter} />
        </div>
      }
    >
      {error !== null && (
        <div className={classes['trouble']}>
          <ErrorState
            title={count === 0 ? 'The events could not be read' : 'Older events could not be read'}
            error={error}
            onRetry={() => void feed.fetchOlder()}
          />
        </div>
      )}
      {count === 0 && !hasMore ? (
        isFiltered(filter) ? (
          <EmptyState
            icon={IconListSearch}
            title="No event fits the filter"
            action={
              <Button variant="default" onClick={onClear}>
                Clear the filter
              </Button>
            }
          >
            Among the last 100,000 events there is none like that.
          </EmptyState>
        ) : (
          <EmptyState icon={IconTimeline} title="Nothing has happened yet">
            Machines that come and go, models that load, and people who log in will show here.
          </EmptyState>
        )
      ) : (
        <div className={classes['frame']}>
          {held > 0 && (
            <Button
              className={classes['news'] ?? ''}
              size="compact-sm"
              leftSection={<IconArrowUp size={14} aria-hidden />}
              onClick={toTop}
            >
              {plural(held, 'new event')}
            </Button>
          )}
          <div
            ref={scroller}
            className={classes['scroller']}
            tabIndex={0}
            role="region"
            aria-label="List of events"
            onScroll={() => feed.follow(wantsToFollow && isAtTop())}
          >
            <div role="list" className={classes['rows']} style={{ height: virtualizer.getTotalSize() }}>
              {items.map((item) => {
                const event = feed.rows.row(item.index);
                if (event === undefined) return null;
                return (
                  <div
                    key={item.key}
                    role="listitem"
                    aria-setsize={hasMore ? -1 : count}
                    aria-posinset={item.index + 1}
                    data-index={item.index}
                    ref={virtualizer.measureElement}
                    className={classes['row']}
                    style={{ transform: `translateY(${item.start}px)` }}
                  >
                    <EventRow event={event} />
                  </div>
                );
              })}
            </div>
            {isFetching && (
              <div className={classes['fetching']}>
                <Loader size="xs" aria-hidden /> Reading older events
              </div>
            )}
          </div>
        </div>
      )}
    </Section>
  );
}

/** What the stream brings, shown once a frame at most. After a reconnect it brings what was missed. */
function useLiveEvents(feed: EventFeed): void {
  useEffect(() => {
    let newest = useLive.getState().events[0]?.id ?? 0;
    let waiting: ApiEvent[] = [];
    let frame: number | null = null;
    const show = (): void => {
      frame = null;
      const events = waiting;
      waiting = [];
      feed.push(events);
    };
    const unsubscribe = useLive.subscribe(({ events }, before) => {
      if (events === before.events) return;
      // The store keeps the last few only, so each change is taken at once.
      const known = events.findIndex(({ id }) => (id ?? 0) <= newest);
      waiting.push(...(known === -1 ? events : events.slice(0, known)).toReversed());
      newest = events[0]?.id ?? newest;
      frame ??= requestAnimationFrame(show);
    });
    return () => {
      unsubscribe();
      if (frame !== null) cancelAnimationFrame(frame);
    };
  }, [feed]);
}
