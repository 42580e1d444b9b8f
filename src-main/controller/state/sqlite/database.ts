import { chmodSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { CoveyError, isDiskFull } from '#shared/errors.ts';
import { namingFullDisk } from '../../../nodejs/disk-full.ts';
import { initial } from './migrations/001-initial.ts';
import { trust } from './migrations/002-trust.ts';
import { dashboard } from './migrations/003-dashboard.ts';
import { jobs } from './migrations/004-jobs.ts';
import { artifacts } from './migrations/005-artifacts.ts';
import { jobEvents } from './migrations/006-job-events.ts';

/** One step of the schema. Numbered from 1 without gaps, never changed once released. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

export const migrations: readonly Migration[] = [initial, trust, dashboard, jobs, artifacts, jobEvents];

export type Connection = Database.Database;

/**
 * Opens the controller's database and brings it to the newest schema, each migration in its own transaction.
 * Durable by `synchronous=FULL`: what a client was told is accepted survives a power cut.
 * Throws `data_directory_unusable` when the file is damaged or was written by a newer version,
 * and `disk_full`.
 */
export function openDatabase(path: string, steps: readonly Migration[] = migrations): Connection {
  let connection: Connection;
  try {
    connection = new Database(path);
    if (process.platform !== 'win32') chmodSync(path, 0o600);
    connection.pragma('journal_mode = WAL');
    connection.pragma('synchronous = FULL');
    connection.pragma('foreign_keys = ON');
    connection.pragma('busy_timeout = 2000');
    const check = connection.pragma('quick_check(1)', { simple: true });
    if (check !== 'ok') throw new Error(String(check));
  } catch (error) {
    if (isDiskFull(error)) throw namingFullDisk(error, dirname(path));
    throw new CoveyError(
      'data_directory_unusable',
      `The database ${path} cannot be read (${error instanceof Error ? error.message : String(error)}). ` +
        'Move it away to start with an empty one, or restore it from a backup.',
      {},
      error,
    );
  }
  const current = connection.pragma('user_version', { simple: true }) as number;
  const newest = steps.length;
  if (current > newest) {
    connection.close();
    throw new CoveyError(
      'data_directory_unusable',
      `The database ${path} was written by a newer version of Covey (schema ${current}, this version knows ${newest}).`,
    );
  }
  for (const step of steps.slice(current)) {
    connection.transaction(() => {
      connection.exec(step.sql);
      connection.pragma(`user_version = ${step.version}`);
    })();
  }
  return connection;
}
