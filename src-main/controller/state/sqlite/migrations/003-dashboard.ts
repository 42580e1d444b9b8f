/**
 * Pausing a machine, and pages of the event list by any of its filters. The rowid is part of every index, so each
 * of these gives its events in order; most events name no machine or no deployment.
 */
export const dashboard = {
  version: 3,
  name: 'dashboard',
  sql: `
    ALTER TABLE nodes ADD COLUMN paused_at INTEGER;

    CREATE INDEX events_by_node ON events (node_id) WHERE node_id IS NOT NULL;
    CREATE INDEX events_by_deployment ON events (deployment_id) WHERE deployment_id IS NOT NULL;
    CREATE INDEX events_by_level ON events (level);
    CREATE INDEX events_by_kind ON events (kind);
  `,
} as const;
