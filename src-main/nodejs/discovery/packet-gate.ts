/**
 * How many packets are looked at, so that nobody on the network can keep us busy: so many of all, fewer of each
 * source. Time is an argument (epoch ms, or any clock that only rises).
 */
export interface PacketGate {
  /** Whether this packet is looked at; the others are dropped unread. */
  admit(source: string, now: number): boolean;
  /** Whether more came within a second than a network of machines sends: time to stop listening for a while. */
  readonly flooded: boolean;
  reset(): void;
}

/** 200 machines that answer one question at once pass; so do their announcements. */
export const gateLimits = {
  all: { perS: 300, burst: 600 },
  source: { perS: 30, burst: 60 },
  sources: 512,
  floodPerS: 5_000,
} as const;

export interface Bucket {
  tokens: number;
  filledAt: number;
}

/** Takes one from a token bucket that fills at `perS` up to `burst`; false: it is empty. */
export function take(
  bucket: Bucket,
  { perS, burst }: { readonly perS: number; readonly burst: number },
  now: number,
): boolean {
  const elapsedMs = Math.max(0, now - bucket.filledAt);
  bucket.tokens = Math.min(burst, bucket.tokens + (elapsedMs * perS) / 1_000);
  bucket.filledAt = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

export function createPacketGate(): PacketGate {
  const sources = new Map<string, Bucket>();
  let all: Bucket = { tokens: gateLimits.all.burst, filledAt: 0 };
  let second = { startedAt: 0, packets: 0 };
  const bucketOf = (source: string, now: number): Bucket => {
    const known = sources.get(source);
    if (known) return known;
    // The oldest gives way: one that still sends gets a full bucket again, and `all` bounds them together.
    if (sources.size >= gateLimits.sources) sources.delete(sources.keys().next().value ?? '');
    const bucket = { tokens: gateLimits.source.burst, filledAt: now };
    sources.set(source, bucket);
    return bucket;
  };
  return {
    get flooded() {
      return second.packets > gateLimits.floodPerS;
    },
    admit(source, now) {
      if (now - second.startedAt >= 1_000 || now < second.startedAt) second = { startedAt: now, packets: 0 };
      second.packets += 1;
      return take(bucketOf(source, now), gateLimits.source, now) && take(all, gateLimits.all, now);
    },
    reset() {
      sources.clear();
      all = { tokens: gateLimits.all.burst, filledAt: 0 };
      second = { startedAt: 0, packets: 0 };
    },
  };
}
