import { existsSync, type Stats } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CoveyError, isDiskFull } from '#shared/errors.ts';
import { printable } from './text.ts';

/** Whether a folder can be made at this path, where nothing is, tried before anything is asked of anyone. */
export async function tryFolder(path: string): Promise<void> {
  await mkdir(path);
  await rmdir(path);
}

/**
 * Something stands where something else goes, and was not replaced.
 * @param shown its path, as people know it
 */
export function inTheWay(shown: string, what: string, todo: string): CoveyError {
  return new CoveyError('invalid_request', `${printable(shown)} is there already and ${what}: ${todo}.`, {
    field: 'target',
  });
}

/** @param found by `lstat` */
export function whatIs(found: Stats): string {
  if (found.isFile()) return 'is a file';
  if (found.isDirectory()) return 'is a folder';
  if (found.isSymbolicLink()) return 'is a link';
  if (found.isFIFO()) return 'is a pipe';
  return found.isSocket() ? 'is a socket' : 'is a device';
}

/** What the file system said of this path, as a sentence. */
export function cannotWrite(path: string, error: unknown): CoveyError {
  if (error instanceof CoveyError) return error;
  const code = isDiskFull(error) ? 'disk_full' : 'invalid_request';
  return new CoveyError(
    code,
    `${printable(path)} cannot be written: ${why(path, error)}.`,
    { field: 'target' },
    error,
  );
}

/** Whether an error is one of writing to a disk here, in work that reads from the network too. */
export function isWriteError(error: unknown): boolean {
  const { path, syscall } = error as NodeJS.ErrnoException;
  return isDiskFull(error) || path !== undefined || syscall === 'write';
}

function why(path: string, error: unknown): string {
  const folder = printable(dirname(path));
  const { code, message } = error as NodeJS.ErrnoException;
  if (isDiskFull(error)) return 'the disk is full';
  switch (code) {
    case 'ENOENT':
      return existsSync(dirname(path)) ? `nothing can be made in ${folder}` : `there is no folder ${folder}`;
    case 'ENOTDIR':
      return `${folder} is no folder`;
    case 'EACCES':
    case 'EPERM':
      return `you may not write to ${folder}`;
    case 'EROFS':
      return `${folder} can only be read`;
    case 'ENAMETOOLONG':
      return 'its name is too long';
    case 'EISDIR':
      return 'it is a folder';
    default:
      return printable(message);
  }
}
