import type { EventHistory, EventHistoryQuery } from '#shared/api/schema.ts';
import type { DeploymentId, JobId, NodeId } from '#shared/lib/ids.ts';
import type { Connection } from './database.ts';
import { eventFromRow } from './rows.ts';

/** What a page is asked for, with node and job found. */
export type EventFilter = Omit<EventHistoryQuery, 'node' | 'deployment' | 'job'> & {
  readonly node?: NodeId | undefined;
  readonly deployment?: DeploymentId | undefined;
  readonly job?: JobId | undefined;
};

/**
 * One page of the event list, newest first. A filter by one value has an index (migrations 003, 006) that gives its events
 * in their order; several values at once and `text` are looked for among all until the page is full.
 */
export function readEventPage(connection: Connection, filter: EventFilter): EventHistory {
  const where: string[] = [];
  const values: (string | number)[] = [];
  const narrow = (condition: string, ...of: (string | number)[]): void => {
    where.push(condition);
    values.push(...of);
  };
  const oneOf = (column: string, wanted: readonly string[] | undefined): void => {
    if (wanted?.length === 1) narrow(`${column} = ?`, ...wanted);
    // With a plus no index is used: one for each value would have to be sorted together.
    else if (wanted) narrow(`+${column} IN (${wanted.map(() => '?').join(', ')})`, ...wanted);
  };
  if (filter.before !== undefined) narrow('id < ?', filter.before);
  if (filter.node !== undefined) narrow('node_id = ?', filter.node);
  if (filter.deployment !== undefined) narrow('deployment_id = ?', filter.deployment);
  if (filter.job !== undefined) narrow('job_id = ?', filter.job);
  oneOf('level', filter.level);
  oneOf('kind', filter.kind);
  if (filter.text !== undefined) narrow("message LIKE ? ESCAPE '\\'", `%${escapeLike(filter.text)}%`);
  const rows = connection
    .prepare(
      `SELECT * FROM events ${where.length > 0 ? `WHERE ${where.join(' AND ')}` : ''} ORDER BY id DESC LIMIT ?`,
    )
    .all(...values, filter.limit + 1);
  return {
    events: rows.slice(0, filter.limit).map(eventFromRow),
    more: rows.length > filter.limit,
  };
}

function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&');
}
