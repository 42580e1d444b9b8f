/** Artifacts that the controller keeps, and the jobs that need them or made them. Their bytes are files. */
export const artifacts = {
  version: 5,
  name: 'artifacts',
  sql: `
    CREATE TABLE artifacts (
      id TEXT PRIMARY KEY,
      kind TEXT NOT NULL,
      name TEXT NOT NULL,
      bytes INTEGER NOT NULL,
      files INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      last_used_at INTEGER NOT NULL,
      pinned INTEGER NOT NULL,
      freed_at INTEGER
    ) STRICT;

    CREATE TABLE artifact_references (
      artifact_id TEXT NOT NULL REFERENCES artifacts (id) ON DELETE RESTRICT,
      job_id TEXT NOT NULL,
      PRIMARY KEY (artifact_id, job_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX artifact_references_by_job ON artifact_references (job_id);
  `,
} as const;
