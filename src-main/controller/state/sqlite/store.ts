import type { ApiEvent, EventHistory } from '#shared/api/schema.ts';
import { absentNode, emptyState, type ControllerState } from '../state.ts';
import type { Connection } from './database.ts';
import { readEventPage, type EventFilter } from './event-pages.ts';
import { createJobStore, type JobStore, type Reported } from './job-store.ts';
import {
  deploymentFromRow,
  deploymentToRow,
  eventFromRow,
  nodeFromRow,
  nodeToRow,
  removedFromRow,
} from './rows.ts';

export type NewEvent = Omit<ApiEvent, 'id' | 'stages' | 'live'>;

/** The controller's state on disk. All writes of one loop turn go into one transaction. */
export interface ControllerStore {
  load(startedAt: number): ControllerState;
  /**
   * Writes the durable difference and appends the events; returns them with their ids. `reported`: what workers have
   * said since `before`; the results and outputs in it are written as far as `after` has accepted them.
   */
  save(
    before: ControllerState,
    after: ControllerState,
    events: readonly NewEvent[],
    reported?: readonly Reported[],
  ): ApiEvent[];
  recentEvents(afterId: number, limit: number): ApiEvent[];
  /** Stored events, newest first, as far as the filter lets them through. */
  eventPage(filter: EventFilter): EventHistory;
  /** What tasks have made and printed. */
  readonly jobs: Pick<JobStore, 'result' | 'output'>;
  close(): void;
}

const keptEvents = 100_000;

export function createStore(connection: Connection): ControllerStore {
  const upsert = (table: string, columns: readonly string[]) =>
    connection.prepare(
      `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map((c) => `@${c}`).join(', ')})
       ON CONFLICT (id) DO UPDATE SET ${columns
         .filter((c) => c !== 'id')
         .map((c) => `${c} = excluded.${c}`)
         .join(', ')}`,
    );
  const jobs = createJobStore(connection);
  const putNode = upsert('nodes', [
    'id',
    'name',
    'joined_at',
    'drain',
    'paused_at',
    'boot_id',
    'facts',
    'said_goodbye',
    'last_contact_at',
  ]);
  const putDeployment = upsert('deployments', [
    'id',
    'model',
    'info',
    'files',
    'request',
    'created_at',
    'wanted',
    'phase',
    'reason',
    'epoch',
    'replica',
    'failures',
    'next_attempt_at',
    'failed_with',
  ]);
  const putRemoved = upsert('removed_nodes', ['id', 'name', 'removed_at']);
  const dropNode = connection.prepare('DELETE FROM nodes WHERE id = ?');
  const dropRemoved = connection.prepare('DELETE FROM removed_nodes WHERE id = ?');
  const dropDeployment = connection.prepare('DELETE FROM deployments WHERE id = ?');
  const addEvent = connection.prepare(
    'INSERT INTO events (at, kind, level, message, node_id, deployment_id, job_id) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const trimEvents = connection.prepare('DELETE FROM events WHERE id <= ?');
  const readEvents = connection.prepare(
    'SELECT * FROM (SELECT * FROM events WHERE id > ? ORDER BY id DESC LIMIT ?) ORDER BY id',
  );

  const writeDifference = (before: ControllerState, after: ControllerState): void => {
    for (const [id, node] of after.nodes) {
      if (before.nodes.get(id)?.durable !== node.durable) putNode.run(nodeToRow(node.durable));
    }
    for (const id of before.nodes.keys()) if (!after.nodes.has(id)) dropNode.run(id);
    for (const [id, removed] of after.removedNodes) {
      if (before.removedNodes.get(id) !== removed) {
        putRemoved.run({ id: removed.id, name: removed.name, removed_at: removed.removedAt });
      }
    }
    for (const id of before.removedNodes.keys()) if (!after.removedNodes.has(id)) dropRemoved.run(id);
    for (const [id, deployment] of after.deployments) {
      if (before.deployments.get(id) !== deployment) putDeployment.run(deploymentToRow(deployment));
    }
    for (const id of before.deployments.keys()) if (!after.deployments.has(id)) dropDeployment.run(id);
  };

  const save = connection.transaction(
    (
      before: ControllerState,
      after: ControllerState,
      events: readonly NewEvent[],
      reported: readonly Reported[],
    ): ApiEvent[] => {
      writeDifference(before, after);
      jobs.write(before.jobs, after.jobs, reported);
      return events.map((event) => {
        const result = addEvent.run(
          event.at,
          event.kind,
          event.level,
          event.message,
          event.nodeId ?? null,
          event.deploymentId ?? null,
          event.jobId ?? null,
        );
        const id = Number(result.lastInsertRowid);
        if (id % 1_000 === 0) trimEvents.run(id - keptEvents);
        return { ...event, id };
      });
    },
  );

  return {
    load(startedAt) {
      const state = emptyState(startedAt);
      const nodes = connection.prepare('SELECT * FROM nodes').all().map(nodeFromRow);
      const removed = connection.prepare('SELECT * FROM removed_nodes').all().map(removedFromRow);
      const deployments = connection
        .prepare('SELECT * FROM deployments ORDER BY created_at')
        .all()
        .map(deploymentFromRow);
      return {
        ...state,
        nodes: new Map(nodes.map((durable) => [durable.id, { durable, live: absentNode(startedAt) }])),
        removedNodes: new Map(removed.map((node) => [node.id, node])),
        deployments: new Map(deployments.map((deployment) => [deployment.id, deployment])),
        jobs: jobs.load(),
      };
    },
    jobs,
    save(before, after, events, reported = []) {
      if (durablyEqual(before, after) && events.length === 0) return [];
      try {
        return save(before, after, events, reported);
      } catch (error) {
        jobs.rolledBack();
        throw error;
      }
    },
    recentEvents(afterId, limit) {
      return readEvents.all(afterId, limit).map(eventFromRow);
    },
    eventPage: (filter) => readEventPage(connection, filter),
    close() {
      connection.close();
    },
  };
}

function durablyEqual(before: ControllerState, after: ControllerState): boolean {
  if (before === after) return true;
  if (before.jobs !== after.jobs) return false;
  if (before.deployments !== after.deployments || before.removedNodes !== after.removedNodes) return false;
  if (before.nodes === after.nodes) return true;
  if (before.nodes.size !== after.nodes.size) return false;
  for (const [id, node] of after.nodes) if (before.nodes.get(id)?.durable !== node.durable) return false;
  return true;
}
