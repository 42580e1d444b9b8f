/**
 * First schema. Desired and observed are different columns: `drain` and a deployment's `request` are what
 * should be, `boot_id`, `facts` and `replica` are what was. JSON columns are checked by schemas on reading.
 */
export const initial = {
  version: 1,
  name: 'initial',
  sql: `
    CREATE TABLE nodes (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      joined_at INTEGER NOT NULL,
      drain TEXT,
      boot_id TEXT,
      facts TEXT,
      said_goodbye INTEGER NOT NULL DEFAULT 0,
      last_contact_at INTEGER
    ) STRICT;

    CREATE TABLE removed_nodes (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      removed_at INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE deployments (
      id TEXT PRIMARY KEY,
      model TEXT NOT NULL,
      info TEXT NOT NULL,
      files TEXT NOT NULL,
      request TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      wanted INTEGER NOT NULL,
      phase TEXT NOT NULL,
      reason TEXT,
      epoch INTEGER NOT NULL,
      replica TEXT,
      failures TEXT NOT NULL,
      next_attempt_at INTEGER,
      failed_with TEXT NOT NULL
    ) STRICT;

    -- Join secrets are kept as SHA-256: the table alone lets nobody in.
    CREATE TABLE join_secrets (
      hash TEXT PRIMARY KEY,
      created_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      used_at INTEGER,
      used_by TEXT
    ) STRICT;

    CREATE TABLE events (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at INTEGER NOT NULL,
      kind TEXT NOT NULL,
      level TEXT NOT NULL,
      message TEXT NOT NULL,
      node_id TEXT,
      deployment_id TEXT
    ) STRICT;
  `,
} as const;
