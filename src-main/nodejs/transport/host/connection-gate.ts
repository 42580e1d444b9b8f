/** What connections of peers that have not shown a member's key may use. */
export interface GateLimits {
  /** At once, over all addresses. */
  readonly unknownPeers: number;
  /** Per address: connections at once, and how fast the right to further ones comes back. */
  readonly burst: number;
  readonly perS: number;
}

export const gateLimits: GateLimits = { unknownPeers: 256, burst: 64, perS: 8 };

export interface GatePass {
  /** The peer is a member: the connection costs its address nothing. */
  authenticated(): void;
  /** The connection is gone. Idempotent. */
  closed(): void;
}

/** Addresses whose allowance is remembered; beyond it the longest unseen are forgotten. */
const maxAddresses = 4_096;

interface Allowance {
  tokens: number;
  at: number;
}

/**
 * Admits connections before TLS begins. Each costs its address one token until it proves to be a member's;
 * members therefore connect as fast as they like while a stranger who knocks on and on is dropped at TCP.
 * @param now monotonic ms
 */
export function createConnectionGate(
  limits: GateLimits,
  now: () => number,
): { enter(address: string): GatePass | null } {
  const allowances = new Map<string, Allowance>();
  let unknownPeers = 0;

  const allowanceOf = (address: string): Allowance => {
    const at = now();
    const known = allowances.get(address);
    const allowance = known ?? { tokens: limits.burst, at };
    allowance.tokens = Math.min(limits.burst, allowance.tokens + ((at - allowance.at) / 1000) * limits.perS);
    allowance.at = at;
    if (!known) {
      if (allowances.size >= maxAddresses) forgetSome(allowances);
      allowances.set(address, allowance);
    }
    return allowance;
  };

  return {
    enter(address) {
      const key = addressGroup(address);
      const allowance = allowanceOf(key);
      if (unknownPeers >= limits.unknownPeers || allowance.tokens < 1) return null;
      allowance.tokens -= 1;
      unknownPeers += 1;
      let counted = true;
      const settle = (): boolean => {
        if (!counted) return false;
        counted = false;
        unknownPeers -= 1;
        return true;
      };
      return {
        authenticated() {
          if (settle()) allowance.tokens = Math.min(limits.burst, allowance.tokens + 1);
        },
        closed: () => void settle(),
      };
    },
  };
}

/** The oldest eighth: those have had the longest time to fill up again. */
function forgetSome(allowances: Map<string, Allowance>): void {
  const oldest = [...allowances].sort(([, a], [, b]) => a.at - b.at).slice(0, maxAddresses / 8);
  for (const [address] of oldest) allowances.delete(address);
}

/** What counts as one address: an IPv6 host usually owns a /64. */
export function addressGroup(address: string): string {
  if (!address.includes(':')) return address;
  const [left = '', right] = (address.split('%')[0] ?? '').split('::');
  const groups = left.split(':').filter(Boolean);
  if (right !== undefined) {
    const zeros = 8 - groups.length - right.split(':').filter(Boolean).length;
    groups.push(...Array<string>(Math.max(0, zeros)).fill('0'), ...right.split(':').filter(Boolean));
  }
  return groups.slice(0, 4).join(':');
}
