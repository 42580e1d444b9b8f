import { CoveyError } from '#shared/errors.ts';

/** What the app refused. Electron puts its own words before those of the main process. */
export function shellError(error: unknown): CoveyError {
  const text = error instanceof Error ? error.message : String(error);
  const own = text.replace(/^Error invoking remote method '[^']*': (Error: )?/, '');
  return new CoveyError('internal_error', own, {}, error);
}
