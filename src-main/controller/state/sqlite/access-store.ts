import { z } from 'zod';
import { keyScopeSchema } from '#shared/api/access.ts';
import type { Connection } from './database.ts';

export interface KeyRow {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the key, in hex. */
  readonly hash: string;
  readonly scope: z.infer<typeof keyScopeSchema>;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
}

export interface SessionRow {
  readonly hash: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** API keys and sessions, hashed. */
export interface AccessStore {
  keys(): KeyRow[];
  addKey(key: KeyRow): void;
  dropKey(id: string): void;
  touchKey(id: string, at: number): void;
  sessions(): SessionRow[];
  addSession(session: SessionRow): void;
  dropSession(hash: string): void;
  dropSessionsBefore(expiresAt: number): void;
}

const keyRow = z
  .object({
    id: z.string(),
    name: z.string(),
    hash: z.string(),
    scope: keyScopeSchema,
    created_at: z.number(),
    last_used_at: z.number().nullable(),
  })
  .transform(({ created_at, last_used_at, ...row }): KeyRow => ({
    ...row,
    createdAt: created_at,
    lastUsedAt: last_used_at,
  }));
const sessionRow = z
  .object({ hash: z.string(), created_at: z.number(), expires_at: z.number() })
  .transform((row): SessionRow => ({
    hash: row.hash,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  }));

export function createAccessStore(connection: Connection): AccessStore {
  const allKeys = connection.prepare('SELECT * FROM api_keys ORDER BY created_at, id');
  const addKey = connection.prepare(
    'INSERT INTO api_keys (id, name, hash, scope, created_at, last_used_at) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const dropKey = connection.prepare('DELETE FROM api_keys WHERE id = ?');
  const touchKey = connection.prepare('UPDATE api_keys SET last_used_at = ? WHERE id = ?');
  const allSessions = connection.prepare('SELECT * FROM api_sessions ORDER BY created_at');
  const addSession = connection.prepare(
    'INSERT INTO api_sessions (hash, created_at, expires_at) VALUES (?, ?, ?)',
  );
  const dropSession = connection.prepare('DELETE FROM api_sessions WHERE hash = ?');
  const dropExpired = connection.prepare('DELETE FROM api_sessions WHERE expires_at <= ?');
  return {
    keys: () => allKeys.all().map((row) => keyRow.parse(row)),
    addKey({ id, name, hash, scope, createdAt, lastUsedAt }) {
      addKey.run(id, name, hash, scope, createdAt, lastUsedAt);
    },
    dropKey: (id) => void dropKey.run(id),
    touchKey: (id, at) => void touchKey.run(at, id),
    sessions: () => allSessions.all().map((row) => sessionRow.parse(row)),
    addSession({ hash, createdAt, expiresAt }) {
      addSession.run(hash, createdAt, expiresAt);
    },
    dropSession: (hash) => void dropSession.run(hash),
    dropSessionsBefore: (expiresAt) => void dropExpired.run(expiresAt),
  };
}
