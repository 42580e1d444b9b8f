import { open } from 'node:fs/promises';
import { CoveyError } from '#shared/errors.ts';

/** Makes a directory's entries survive a power cut. Windows cannot open one; there a rename is durable by itself. */
export async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** What the file system says, as a sentence that names the file. */
export async function naming<T>(path: string, field: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CoveyError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new CoveyError(
        'disk_full',
        `There is no room for ${path}. Nothing was changed.`,
        { field },
        error,
      );
    }
    const why =
      code === 'ENOENT'
        ? 'there is no such file or directory'
        : code === 'EACCES' || code === 'EPERM' || code === 'EROFS'
          ? 'this is not allowed'
          : code === 'EISDIR'
            ? 'it is a directory'
            : message;
    throw new CoveyError('invalid_request', `${path} cannot be used: ${why}.`, { field }, error);
  }
}

/** `2026-11-30T10-34-09Z`: sorts by time, and every file system takes it. */
export function stamp(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replaceAll(':', '-')}Z`;
}
