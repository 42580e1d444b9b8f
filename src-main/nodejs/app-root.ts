import { dirname, join } from 'node:path';
import { entries } from './entries.ts';

/**
 * The checkout or the installed program, where what comes with it lies. Beside the archive of the desktop app, since
 * programs cannot run from within it.
 */
export const appRoot = entries['transport-host'].endsWith('.ts')
  ? join(import.meta.dirname, '..', '..')
  : outsideArchive(dirname(dirname(entries['transport-host'])));

function outsideArchive(directory: string): string {
  return directory.endsWith('.asar') ? dirname(directory) : directory;
}
