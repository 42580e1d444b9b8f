import type { NodeId } from '#shared/lib/ids.ts';
import type { LogLine } from '#shared/api/schema.ts';

/** The newest log lines of all nodes, in the order they arrived. Bounded; workers limit their rate. */
export interface NodeLogs {
  add(line: LogLine): void;
  read(filter: { nodeId?: NodeId | undefined; limit: number }): LogLine[];
}

export function createNodeLogs(capacity = 5_000): NodeLogs {
  const lines: LogLine[] = [];
  return {
    add(line) {
      lines.push(line);
      if (lines.length > capacity * 1.2) lines.splice(0, lines.length - capacity);
    },
    read({ nodeId, limit }) {
      const matching = nodeId === undefined ? lines : lines.filter((line) => line.nodeId === nodeId);
      return matching.slice(-limit);
    },
  };
}
