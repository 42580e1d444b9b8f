import path from 'node:path';

/** Absolute path of this checkout. */
export const checkout = path.resolve(import.meta.dirname, '..', '..');

/** The `covey` command as it ships. */
export const coveyCommand = path.join(checkout, 'bin', 'covey.mjs');

/** The engine directory that the set-up made. */
export function engineDirectory(): string {
  const directory = process.env['COVEY_ENGINE_DIR'];
  if (!directory) throw new Error('COVEY_ENGINE_DIR is not set: run these tests with "npm test" or vitest');
  return directory;
}
