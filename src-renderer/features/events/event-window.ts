import type { ApiEvent } from '#shared/api/schema.ts';

/** An event that is kept; progress and live figures have no id and are no rows. */
export type StoredEvent = ApiEvent & { id: number };

export type EventLevel = ApiEvent['level'];

/** What the list shows; null and empty are no limit. */
export interface EventFilter {
  readonly nodeId: string | null;
  readonly deploymentId: string | null;
  readonly jobId: string | null;
  readonly levels: readonly EventLevel[];
  readonly kinds: readonly string[];
  readonly text: string;
}

export const noFilter: EventFilter = {
  nodeId: null,
  deploymentId: null,
  jobId: null,
  levels: [],
  kinds: [],
  text: '',
};

export function isFiltered({ nodeId, deploymentId, jobId, levels, kinds, text }: EventFilter): boolean {
  const isAboutOne = nodeId !== null || deploymentId !== null || jobId !== null;
  return isAboutOne || levels.length > 0 || kinds.length > 0 || text !== '';
}

/** Whether an event belongs into the list, as the controller decides it for pages of the past. */
export function matches(event: ApiEvent, filter: EventFilter): boolean {
  const { nodeId, deploymentId, jobId, levels, kinds, text } = filter;
  return (
    (nodeId === null || event.nodeId === nodeId) &&
    (deploymentId === null || event.deploymentId === deploymentId) &&
    (jobId === null || event.jobId === jobId) &&
    (levels.length === 0 || levels.includes(event.level)) &&
    (kinds.length === 0 || kinds.includes(event.kind)) &&
    (text === '' || asciiLower(event.message).includes(asciiLower(text)))
  );
}

function asciiLower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** The query of `GET /api/events/history` for the page before an event. */
export function historyQuery(
  { nodeId, deploymentId, jobId, levels, kinds, text }: EventFilter,
  before: number | null,
  limit: number,
): Record<string, string> {
  return {
    limit: String(limit),
    ...(before === null ? {} : { before: String(before) }),
    ...(nodeId === null ? {} : { node: nodeId }),
    ...(deploymentId === null ? {} : { deployment: deploymentId }),
    ...(jobId === null ? {} : { job: jobId }),
    ...(levels.length === 0 ? {} : { level: levels.join(',') }),
    ...(kinds.length === 0 ? {} : { kind: kinds.join(',') }),
    ...(text === '' ? {} : { text }),
  };
}

export function isStored(event: ApiEvent): event is StoredEvent {
  return event.id !== null;
}

/**
 * Rows of the event list, the newest first: what came while looking, and below it pages of the past. Adding at
 * either end costs the same whatever is there: 100,000 rows and a hundred events a second have to stay smooth.
 */
export interface EventWindow {
  readonly length: number;
  /** The newest is row 0. */
  row(index: number): StoredEvent | undefined;
  /** An event that happened now. One that is there already (after a reconnect) is not added again. */
  add(event: StoredEvent): boolean;
  /** A page of the past, newest first. */
  addOlder(page: readonly StoredEvent[]): void;
  /** The oldest row: pages before it are still to be fetched. */
  readonly oldestId: number | null;
  readonly newestId: number | null;
}

export function createEventWindow(limit = 100_000): EventWindow {
  /** Oldest first. */
  const fresh: StoredEvent[] = [];
  let dropped = 0;
  /** Newest first. */
  const older: StoredEvent[] = [];

  const freshCount = (): number => fresh.length - dropped;
  const newestId = (): number | null => (freshCount() > 0 ? fresh.at(-1) : older[0])?.id ?? null;
  const oldestId = (): number | null => (older.length > 0 ? older.at(-1) : fresh[dropped])?.id ?? null;

  return {
    get length() {
      return freshCount() + older.length;
    },
    get newestId() {
      return newestId();
    },
    get oldestId() {
      return oldestId();
    },
    row(index) {
      const count = freshCount();
      return index < count ? fresh[fresh.length - 1 - index] : older[index - count];
    },
    add(event) {
      const newest = newestId();
      if (newest !== null && event.id <= newest) return false;
      fresh.push(event);
      if (freshCount() + older.length <= limit) return true;
      // The controller keeps no more than this either.
      if (older.length > 0) older.pop();
      else dropped++;
      if (dropped > limit) {
        fresh.splice(0, dropped);
        dropped = 0;
      }
      return true;
    },
    addOlder(page) {
      for (const event of page) {
        const oldest = oldestId();
        if (oldest !== null && event.id >= oldest) continue;
        if (freshCount() + older.length >= limit) return;
        older.push(event);
      }
    },
  };
}
