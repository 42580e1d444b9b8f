import type { SpliceSide } from '../splice.ts';

/** What went over a link. `near` is the leader's side. */
export interface Traffic {
  /** Called for every read: a few additions. */
  add(from: SpliceSide, bytes: number): void;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** ms since the last byte, null before the first. */
  readonly idleMs: number | null;
  readonly lastSender: 'leader' | 'stage' | null;
  /** The most bytes that went one way within one second; null before the first second with traffic is over. */
  readonly bytesPerS: number | null;
}

const windowMs = 1_000;

/** @param now monotonic ms */
export function createTraffic(now: () => number): Traffic {
  let sentBytes = 0;
  let receivedBytes = 0;
  let lastByteAt: number | null = null;
  let lastSender: 'leader' | 'stage' | null = null;
  let best: number | null = null;
  let windowAt = -Infinity;
  let windowSent = 0;
  let windowReceived = 0;

  const closeWindow = (): void => {
    if (windowSent + windowReceived > 0) best = Math.max(best ?? 0, windowSent, windowReceived);
    windowSent = 0;
    windowReceived = 0;
  };

  return {
    add(from, bytes) {
      const at = now();
      if (at - windowAt >= windowMs) {
        closeWindow();
        windowAt = at;
      }
      if (from === 'near') {
        sentBytes += bytes;
        windowSent += bytes;
        lastSender = 'leader';
      } else {
        receivedBytes += bytes;
        windowReceived += bytes;
        lastSender = 'stage';
      }
      lastByteAt = at;
    },
    get sentBytes() {
      return sentBytes;
    },
    get receivedBytes() {
      return receivedBytes;
    },
    get idleMs() {
      return lastByteAt === null ? null : Math.round(now() - lastByteAt);
    },
    get lastSender() {
      return lastSender;
    },
    get bytesPerS() {
      if (now() - windowAt >= windowMs) closeWindow();
      return best;
    },
  };
}
