import type { NodeId } from '#shared/lib/ids.ts';
import type { LogLine } from '#shared/api/schema.ts';

/**
 * The newest log lines of all nodes: those that arrived last are kept, and are told in the order of their times.
 * Bounded; workers limit their rate.
 */
export interface NodeLogs {
  add(line: LogLine): void;
  read(filter: { nodeId?: NodeId | undefined; limit: number }): LogLine[];
  /**
   * Calls back with all lines at once (in parts, one at least), then a few times a second with new ones, until the
   * returned function is called.
   */
  subscribe(listener: (lines: readonly LogLine[]) => void): () => void;
}

/** A burst of lines is handed on together. */
export const logBatchMs = 250;
/** Lines of an event at most: what a machine that means harm fills them with is bounded too. */
const partLines = 500;

export function createNodeLogs(capacity = 5_000): NodeLogs {
  const lines: LogLine[] = [];
  const listeners = new Set<(lines: readonly LogLine[]) => void>();
  let waiting: LogLine[] = [];
  let timer: NodeJS.Timeout | null = null;
  const tell = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const news = inTime(waiting);
    waiting = [];
    if (news.length > 0) for (const listener of listeners) inParts(news, listener);
  };
  return {
    add(line) {
      lines.push(line);
      if (lines.length > capacity * 1.2) lines.splice(0, lines.length - capacity);
      if (listeners.size === 0) return;
      waiting.push(line);
      timer ??= setTimeout(tell, logBatchMs);
    },
    read({ nodeId, limit }) {
      const matching = nodeId === undefined ? lines : lines.filter((line) => line.nodeId === nodeId);
      return inTime(matching.slice(-limit));
    },
    subscribe(listener) {
      // Those who listen already get what waits now, so that what comes after it is new for everybody.
      tell();
      listeners.add(listener);
      inParts(inTime(lines.slice(-capacity)), listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        waiting = [];
        tell();
      };
    },
  };
}

/** Machines send their lines a few seconds' worth at once. */
function inTime(lines: readonly LogLine[]): LogLine[] {
  return lines.toSorted((one, other) => one.at - other.at);
}

function inParts(lines: readonly LogLine[], listener: (lines: readonly LogLine[]) => void): void {
  for (let from = 0; from === 0 || from < lines.length; from += partLines) {
    listener(lines.slice(from, from + partLines));
  }
}
