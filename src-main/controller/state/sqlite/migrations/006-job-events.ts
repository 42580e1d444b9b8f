/** Pages of the event list by job; most events are of none. */
export const jobEvents = {
  version: 6,
  name: 'job-events',
  sql: `CREATE INDEX events_by_job ON events (job_id) WHERE job_id IS NOT NULL;`,
} as const;
