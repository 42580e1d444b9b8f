import type { ApiEvent, EventHistory } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import {
  createEventWindow,
  isStored,
  matches,
  type EventFilter,
  type EventWindow,
  type StoredEvent,
} from './event-window.ts';

export interface FeedState {
  /** Grows with every change of the rows. */
  readonly version: number;
  /** Events that came while the list stood still. */
  readonly held: number;
  readonly isFetching: boolean;
  /** There are older ones than those in the list. */
  readonly hasMore: boolean;
  readonly error: CoveyError | null;
}

/**
 * The event list with one filter: pages of the past as they are asked for, and what happens now. While it does not
 * follow, what happens is held back and counted, so that nothing moves under the reader's eyes.
 */
export interface EventFeed {
  readonly rows: EventWindow;
  readonly state: () => FeedState;
  readonly subscribe: (listener: () => void) => () => void;
  /** Events of now, oldest first; what the filter does not let through is passed over. */
  push(events: readonly ApiEvent[]): void;
  follow(follows: boolean): void;
  /** The next page of the past. Nothing while one is on its way or when there is none. */
  fetchOlder(): Promise<void>;
}

/** A list that nobody lets go on must not fill the memory. */
const maxHeld = 5_000;

export function createEventFeed(options: {
  readonly filter: EventFilter;
  /** The page before an event; null: the newest. */
  readonly fetchPage: (before: number | null) => Promise<EventHistory>;
}): EventFeed {
  const { filter, fetchPage } = options;
  const rows = createEventWindow();
  const listeners = new Set<() => void>();
  let held: StoredEvent[] = [];
  let follows = true;
  let state: FeedState = { version: 0, held: 0, isFetching: false, hasMore: true, error: null };

  const set = (change: Partial<FeedState>): void => {
    state = { ...state, ...change };
    for (const listener of listeners) listener();
  };
  const add = (events: readonly StoredEvent[]): void => {
    const added = events.filter((event) => rows.add(event)).length;
    if (added > 0) set({ version: state.version + 1 });
  };

  return {
    rows,
    state: () => state,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    push(events) {
      const fitting = events.filter(isStored).filter((event) => matches(event, filter));
      if (fitting.length === 0) return;
      if (follows) return add(fitting);
      held.push(...fitting);
      // The newest of them are what the reader comes back for.
      if (held.length > maxHeld) held = held.slice(-maxHeld);
      set({ held: held.length });
    },
    follow(value) {
      if (follows === value) return;
      follows = value;
      if (!value) return;
      const events = held;
      held = [];
      if (events.length > 0) set({ held: 0 });
      add(events);
    },
    async fetchOlder() {
      if (state.isFetching || !state.hasMore) return;
      set({ isFetching: true, error: null });
      try {
        const { events, more } = await fetchPage(rows.oldestId);
        rows.addOlder(events.filter(isStored));
        set({ version: state.version + 1, isFetching: false, hasMore: more });
      } catch (error) {
        set({ isFetching: false, error: CoveyError.from(error) });
      }
    },
  };
}
