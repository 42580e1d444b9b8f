/** How fast this machine may send on all its tunnels together: a token bucket that streams overdraw and then wait. */
export interface UploadLimit {
  /** null: as fast as it goes. */
  set(bytesPerS: number | null): void;
  /** Whether there is one: then what is sent at once should be little. */
  readonly limited: boolean;
  /** These bytes are being sent. @returns ms to wait before that stream sends more */
  take(bytes: number): number;
}

/** What may go at once after a pause. */
const burstS = 0.25;
/**
 * No stream waits longer, so that a tunnel does not look stalled; rates below about 13 kB/s per stream (a read of
 * 64 KiB each time) are not kept exactly.
 */
const maxWaitMs = 5_000;

/** @param now monotonic ms */
export function createUploadLimit(now: () => number, bytesPerS: number | null): UploadLimit {
  let rate = bytesPerS;
  let tokens = 0;
  let filledAt = now();
  return {
    get limited() {
      return rate !== null;
    },
    set(next) {
      if (next === rate) return;
      rate = next;
      tokens = 0;
      filledAt = now();
    },
    take(bytes) {
      if (rate === null) return 0;
      const at = now();
      tokens = Math.min(rate * burstS, tokens + ((at - filledAt) / 1_000) * rate);
      filledAt = at;
      tokens -= bytes;
      return tokens >= 0 ? 0 : Math.min(maxWaitMs, Math.ceil((-tokens / rate) * 1_000));
    },
  };
}
