import { z } from 'zod';
import type { BlockedView } from '#shared/api/joining.ts';
import { nodeIdSchema, type NodeId } from '#shared/lib/ids.ts';
import type { Connection } from './database.ts';

/** What a join secret's row says. */
export interface JoinSecretRow {
  readonly expiresAt: number;
  readonly usedAt: number | null;
  readonly usedBy: NodeId | null;
}

/** Who may join: secrets of join strings by their hash, and keys that may not ask. */
export interface JoiningStore {
  addJoinSecret(hash: string, createdAt: number, expiresAt: number): void;
  joinSecret(hash: string): JoinSecretRow | null;
  useJoinSecret(hash: string, at: number, nodeId: NodeId): void;
  /** Undoes `useJoinSecret`: nobody was let in with it after all. */
  releaseJoinSecret(hash: string): void;
  block(node: BlockedView): void;
  unblock(nodeId: NodeId): void;
  isBlocked(nodeId: NodeId): boolean;
  /** Newest first. */
  blocked(): BlockedView[];
}

/** Used and expired secrets are kept this long, so that a late try hears why it is refused. */
const keptMs = 86_400_000;

const secretRow = z.object({
  expires_at: z.number(),
  used_at: z.number().nullable(),
  used_by: nodeIdSchema.nullable(),
});
const blockedRow = z.object({ id: nodeIdSchema, name: z.string(), blocked_at: z.number() });

export function createJoiningStore(connection: Connection): JoiningStore {
  const addSecret = connection.prepare(
    'INSERT INTO join_secrets (hash, created_at, expires_at) VALUES (?, ?, ?)',
  );
  const dropSecrets = connection.prepare('DELETE FROM join_secrets WHERE expires_at < ?');
  const getSecret = connection.prepare(
    'SELECT expires_at, used_at, used_by FROM join_secrets WHERE hash = ?',
  );
  const markSecret = connection.prepare('UPDATE join_secrets SET used_at = ?, used_by = ? WHERE hash = ?');
  const putBlocked = connection.prepare(
    `INSERT INTO blocked_nodes (id, name, blocked_at) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, blocked_at = excluded.blocked_at`,
  );
  const dropBlocked = connection.prepare('DELETE FROM blocked_nodes WHERE id = ?');
  const getBlocked = connection.prepare('SELECT 1 FROM blocked_nodes WHERE id = ?');
  const allBlocked = connection.prepare('SELECT * FROM blocked_nodes ORDER BY blocked_at DESC, id');

  return {
    addJoinSecret(hash, createdAt, expiresAt) {
      dropSecrets.run(createdAt - keptMs);
      addSecret.run(hash, createdAt, expiresAt);
    },
    joinSecret(hash) {
      const row = secretRow.optional().parse(getSecret.get(hash));
      return row ? { expiresAt: row.expires_at, usedAt: row.used_at, usedBy: row.used_by } : null;
    },
    useJoinSecret(hash, at, nodeId) {
      markSecret.run(at, nodeId, hash);
    },
    releaseJoinSecret(hash) {
      markSecret.run(null, null, hash);
    },
    block({ nodeId, name, blockedAt }) {
      putBlocked.run(nodeId, name, blockedAt);
    },
    unblock(nodeId) {
      dropBlocked.run(nodeId);
    },
    isBlocked: (nodeId) => getBlocked.get(nodeId) !== undefined,
    blocked: () =>
      allBlocked.all().map((raw) => {
        const row = blockedRow.parse(raw);
        return { nodeId: row.id, name: row.name, blockedAt: row.blocked_at };
      }),
  };
}
