import { addressGroup } from '../../nodejs/transport/host/connection-gate.ts';

/** How often machines may fail to join within one window. */
export const attemptLimits = {
  windowMs: 60_000,
  /** Failures of one address (IPv6: of one /64). */
  failuresPerAddress: 10,
  /**
   * Challenges given to machines that ask for approval, over all addresses, admissions not counted. Whoever stands
   * between a worker and us learns our number from the challenge and could throw it away until one fits by luck:
   * at this rate that is 1 in 6,000 while a request lasts.
   */
  challenges: 30,
  /** Addresses whose failures are remembered; beyond it those that have been quiet longest are forgotten. */
  addresses: 1_024,
} as const;

/** Counts by the caller's clock (epoch ms). */
export interface AttemptLimits {
  /** How long this address has to wait; 0: it may try. */
  waitMs(address: string, now: number): number;
  failed(address: string, now: number): void;
  /** Takes one challenge; when there is none left, how long to wait instead. */
  takeChallenge(now: number): { readonly waitMs: number; readonly giveBack: () => void };
}

export function createAttemptLimits(): AttemptLimits {
  const { windowMs } = attemptLimits;
  /** Times of failures by address group, in the order of the last failure. */
  const failures = new Map<string, number[]>();
  let challenges: { readonly at: number }[] = [];
  /** Also drops times of the future, after the clock was set back. */
  const isRecent = (at: number, now: number): boolean => at <= now && now - at < windowMs;

  return {
    waitMs(address, now) {
      const times = (failures.get(addressGroup(address)) ?? []).filter((at) => isRecent(at, now));
      const [oldest] = times.slice(-attemptLimits.failuresPerAddress);
      if (oldest === undefined || times.length < attemptLimits.failuresPerAddress) return 0;
      return oldest + windowMs - now;
    },
    failed(address, now) {
      const group = addressGroup(address);
      const times = (failures.get(group) ?? []).filter((at) => isRecent(at, now));
      times.push(now);
      failures.delete(group);
      failures.set(group, times.slice(-attemptLimits.failuresPerAddress));
      for (const quietest of failures.keys()) {
        if (failures.size <= attemptLimits.addresses) break;
        failures.delete(quietest);
      }
    },
    takeChallenge(now) {
      challenges = challenges.filter(({ at }) => isRecent(at, now));
      const [oldest] = challenges;
      if (oldest && challenges.length >= attemptLimits.challenges) {
        return { waitMs: oldest.at + windowMs - now, giveBack: () => undefined };
      }
      const taken = { at: now };
      challenges.push(taken);
      return {
        waitMs: 0,
        giveBack() {
          challenges = challenges.filter((one) => one !== taken);
        },
      };
    },
  };
}
