/**
 * Jobs, their partitions with the attempts at them, and what those printed. A partition's `id` is the job's `no`
 * times 10,000,000 plus its index, so that one number finds a row and those of a job lie together; one that was
 * never assigned has no row. Results come last: whoever reads only records does not read them.
 */
export const jobs = {
  version: 4,
  name: 'jobs',
  sql: `
    CREATE TABLE jobs (
      no INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      definition TEXT NOT NULL,
      course TEXT NOT NULL
    ) STRICT;

    CREATE TABLE partitions (
      id INTEGER PRIMARY KEY,
      record TEXT NOT NULL,
      result TEXT
    ) STRICT;

    CREATE TABLE task_outputs (
      task_id TEXT PRIMARY KEY,
      job_no INTEGER NOT NULL,
      output TEXT NOT NULL
    ) STRICT;
    CREATE INDEX task_outputs_by_job ON task_outputs (job_no);

    ALTER TABLE events ADD COLUMN job_id TEXT;
  `,
} as const;
