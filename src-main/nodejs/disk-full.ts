import { dirname } from 'node:path';
import { CoveyError, isDiskFull } from '#shared/errors.ts';

/**
 * An error of the file system or of SQLite as `disk_full` naming the directory, when that is what it is; else itself.
 * @param directory where it was written to, as far as the error does not know better
 */
export function namingFullDisk(thrown: unknown, directory: string): unknown {
  if (!isDiskFull(thrown)) return thrown;
  const { path, message } = thrown as NodeJS.ErrnoException;
  const where = path === undefined ? directory : dirname(path);
  // The rest names a temporary file.
  const [reason] = message.split(',');
  return new CoveyError('disk_full', `The disk of ${where} is full (${reason}).`, {}, thrown);
}
