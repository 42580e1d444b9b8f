import { setTimeout as delay } from 'node:timers/promises';
import type { LendRules, LendState } from '#shared/domain/lend.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { decide, type Decision, type Sensed } from './decide.ts';
import { localTime } from './schedule.ts';
import type { Sensors } from './sense.ts';
import { unknown } from './sensors/system.ts';

/** What a worker asks about its owner's wishes. */
export interface LendPort {
  state(): LendState;
  rules(): LendRules;
  /** Fires when either has changed. @returns removes the listener */
  onChange(listener: () => void): () => void;
}

export interface LendMonitor extends LendPort {
  close(): void;
}

/** Where the rules stand. */
export interface RulesSource {
  current(): LendRules;
  onChange(listener: () => void): () => void;
}

const lookEveryMs = 1_000;
/** A start does not wait longer for slow sensors. */
const firstLookMs = 2_000;

/**
 * Looks at the machine once a second, and at once when the rules change, and decides. Lives as long as the
 * program, whichever covey it belongs to. Resolves with the first decision made.
 */
export async function createLendMonitor(options: {
  readonly rules: RulesSource;
  readonly sensors: Sensors;
  readonly clock: Clock;
  readonly logger: Logger;
}): Promise<LendMonitor> {
  const { rules, sensors, clock, logger } = options;
  const listeners = new Set<() => void>();
  let decision: Decision = decide(rules.current(), blind(clock.now()), null, clock.now());
  let looking: Promise<void> | null = null;
  let again = false;
  let closed = false;

  const lookOnce = async (): Promise<void> => {
    const current = rules.current();
    const sensed = await sensors.sense(current);
    if (closed) return;
    const before = decision;
    decision = decide(current, sensed, before, clock.now());
    if (before.rules === decision.rules && sameState(before.state, decision.state)) return;
    say(before.state, decision.state);
    for (const listener of listeners) listener();
  };
  const say = (before: LendState, after: LendState): void => {
    if (before.lending === after.lending) return;
    if (after.lending) logger.info('this machine is lent again');
    else
      logger.info('this machine gives way', {
        why: after.heldBackBy.map(({ message }) => message).join(' '),
      });
  };
  /** One look at a time; a wish that comes meanwhile is not lost. */
  const look = (): Promise<void> => {
    again = true;
    looking ??= (async () => {
      while (again && !closed) {
        again = false;
        await lookOnce();
      }
    })()
      .catch((error: unknown) =>
        logger.error('the lend rules could not be judged', { reason: String(error) }),
      )
      .finally(() => (looking = null));
    return looking;
  };

  const stopListening = rules.onChange(() => void look());
  const timer = setInterval(() => void look(), lookEveryMs);
  await Promise.race([look(), delay(firstLookMs, undefined, { ref: false })]);
  return {
    state: () => decision.state,
    rules: () => rules.current(),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      closed = true;
      clearInterval(timer);
      stopListening();
      sensors.close();
    },
  };
}

function blind(now: number): Sensed {
  const nothing = unknown('not sensed yet');
  return {
    local: localTime(now),
    idleMs: nothing,
    onBattery: nothing,
    programs: nothing,
    fullScreen: nothing,
    celsius: nothing,
  };
}

function sameState(a: LendState, b: LendState): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
