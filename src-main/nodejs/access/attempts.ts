import { CoveyError } from '#shared/errors.ts';

/**
 * Counts what was wrong by where it came from, so that nobody can go on guessing or fill the list of events.
 */
export interface Attempts {
  /** @throws CoveyError `too_many_requests` while the origin is locked out */
  check(origin: string): void;
  /** Something wrong came from there. @returns whether it is worth an event: the first one, and the lockout */
  fail(origin: string): 'first' | 'counted' | 'locked-out';
}

const windowMs = 60_000;
/** Wrong ones of one origin in a window. */
const most = 10;
const maxOrigins = 4_096;

export function createAttempts(now: () => number): Attempts {
  const origins = new Map<string, { count: number; untilAt: number }>();
  const current = (origin: string) => {
    const entry = origins.get(origin);
    if (entry && entry.untilAt > now()) return entry;
    origins.delete(origin);
    return null;
  };
  return {
    check(origin) {
      const entry = current(origin);
      if (entry === null || entry.count < most) return;
      const retryAfterS = Math.ceil((entry.untilAt - now()) / 1_000);
      throw new CoveyError(
        'too_many_requests',
        `Too many wrong tokens, keys or codes came from here. Try again in ${retryAfterS} s.`,
        { retryAfterS },
      );
    },
    fail(origin) {
      const entry = current(origin) ?? { count: 0, untilAt: now() + windowMs };
      entry.count += 1;
      // Who keeps on does not get out of it by the end of the first window.
      if (entry.count === most) entry.untilAt = now() + windowMs;
      origins.delete(origin);
      origins.set(origin, entry);
      if (origins.size > maxOrigins) origins.delete(origins.keys().next().value as string);
      return entry.count === 1 ? 'first' : entry.count === most ? 'locked-out' : 'counted';
    },
  };
}
