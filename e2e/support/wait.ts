import { setTimeout as delay } from 'node:timers/promises';

/** Thrown by `waitFor`; says what was waited for and what was seen last. */
export class WaitTimeout extends Error {
  constructor(description: string, timeoutMs: number, last: string) {
    super(`waited ${timeoutMs / 1000} s for ${description}; last: ${last}`);
    this.name = 'WaitTimeout';
  }
}

/**
 * Calls `probe` until it returns something truthy and returns that. `probe` may throw: that counts as "not
 * yet", and the last such error stands in the time-out's message.
 * @param description what is waited for, for the message
 * @param fatal errors of this class end the waiting at once
 */
export async function waitFor<T>(
  description: string,
  probe: () => T | Promise<T>,
  timeoutMs: number,
  intervalMs = 50,
  fatal?: new (...args: never[]) => Error,
): Promise<Exclude<Awaited<T>, null | undefined | false | 0 | ''>> {
  const endAt = Date.now() + timeoutMs;
  let last = 'nothing';
  for (;;) {
    try {
      const value = await probe();
      if (value) return value as Exclude<Awaited<T>, null | undefined | false | 0 | ''>;
      last = String(value);
    } catch (error) {
      if (fatal !== undefined && error instanceof fatal) throw error;
      last = error instanceof Error ? error.message : String(error);
    }
    if (Date.now() >= endAt) throw new WaitTimeout(description, timeoutMs, last);
    await delay(intervalMs);
  }
}

/** Rejects when `promise` has not settled in time; the timer does not outlive it. */
export async function withDeadline<T>(
  description: string,
  promise: Promise<T>,
  timeoutMs: number,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new WaitTimeout(description, timeoutMs, 'no answer')), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
