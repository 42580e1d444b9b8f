/**
 * Who may call the API and who may not ask to join. Tokens and keys are kept as SHA-256: they are random enough
 * that nothing slower is needed, and the table alone lets nobody in.
 */
export const trust = {
  version: 2,
  name: 'trust',
  sql: `
    CREATE TABLE api_keys (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      hash TEXT NOT NULL UNIQUE,
      scope TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      last_used_at INTEGER
    ) STRICT;

    CREATE TABLE api_sessions (
      hash TEXT PRIMARY KEY,
      created_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE blocked_nodes (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      blocked_at INTEGER NOT NULL
    ) STRICT;
  `,
} as const;
