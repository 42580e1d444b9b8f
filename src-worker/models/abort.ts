import { CoveyError } from '#shared/errors.ts';

/** The reason of an abort as an error for whoever waits: the caller's own, or `cancelled`. */
export function abortError(signal: AbortSignal, what: string): CoveyError {
  return signal.reason instanceof CoveyError
    ? signal.reason
    : new CoveyError('cancelled', `${what} was cancelled`);
}
