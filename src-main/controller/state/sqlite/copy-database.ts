import Database from 'better-sqlite3';
import { CoveyError } from '#shared/errors.ts';

/**
 * Copies a database by SQLite's online backup: one consistent moment of it, also while a controller writes to it.
 * All pages are taken in one step, so that writes meanwhile do not start it over. Throws what the file system
 * says, or `data_directory_unusable` when the database is damaged.
 */
export async function copyDatabase(source: string, destination: string): Promise<void> {
  const connection = new Database(source, { readonly: true, fileMustExist: true });
  try {
    connection.pragma('busy_timeout = 5000');
    await connection.backup(destination, { progress: () => 2 ** 31 - 1 });
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    if (code === 'SQLITE_FULL' || code === 'SQLITE_IOERR_WRITE') {
      throw Object.assign(new Error('no space left', { cause: error }), { code: 'ENOSPC' });
    }
    throw new CoveyError(
      'data_directory_unusable',
      `The database ${source} cannot be read (${error instanceof Error ? error.message : String(error)}).`,
      { field: 'data' },
      error,
    );
  } finally {
    connection.close();
  }
}
