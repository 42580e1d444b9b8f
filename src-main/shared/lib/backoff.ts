export interface BackoffPolicy {
  readonly firstMs: number;
  readonly maxMs: number;
  /** Multiplier per attempt, > 1. */
  readonly factor: number;
  /** Share of the delay that is random, 0..1, so that many clients do not come back in step. */
  readonly jitter: number;
}

/**
 * Delay before attempt `attempt` (0-based) in ms: exponential, capped, with the given share of jitter.
 * @param chance a number in [0, 1)
 */
export function backoffMs(policy: BackoffPolicy, attempt: number, chance: number): number {
  const full = Math.min(policy.maxMs, policy.firstMs * policy.factor ** Math.min(attempt, 64));
  return Math.round(full * (1 - policy.jitter) + full * policy.jitter * chance);
}
