import type { LendRuleName, LendRules, LendState } from '#shared/domain/lend.ts';
import { scheduleAllows, type LocalTime } from './schedule.ts';

/** What a sensor told, or why it cannot. */
export type Reading<T> =
  { readonly known: true; readonly value: T } | { readonly known: false; readonly reason: string };

/** The machine as its sensors see it. Only what a rule asks for need be sensed; the rest may be unknown. */
export interface Sensed {
  readonly local: LocalTime;
  /** Since keyboard or mouse were last used, ms. */
  readonly idleMs: Reading<number>;
  readonly onBattery: Reading<boolean>;
  /** Names of running programs without path. */
  readonly programs: Reading<readonly string[]>;
  readonly fullScreen: Reading<boolean>;
  /** The hottest sensor of the machine. */
  readonly celsius: Reading<number>;
}

/** What the next decision must remember of this one. */
export interface Decision {
  readonly state: LendState;
  /** When each rule that lingers last saw its cause, epoch ms; only those that still hold. */
  readonly seenAt: Readonly<Partial<Record<LendRuleName, number>>>;
  /** The rules that were decided by. */
  readonly rules: LendRules;
}

/**
 * How long a rule holds on after its cause was last seen: a game that starts its next level in another process,
 * a plug that wobbles and a fan that catches up must not load and unload models in turns. `switch` and `schedule`
 * follow at once, and `idle` has its own pause in its minutes.
 */
export const lingerMs: Readonly<Partial<Record<LendRuleName, number>>> = {
  battery: 60_000,
  program: 30_000,
  'full-screen': 30_000,
  hot: 60_000,
};
/** A machine that was too hot must be cooler than the limit by this much. */
export const coolerByCelsius = 5;

/** What of it concerns models: a machine may be lent for other work alone. */
export function lentToModels({ lending, noModels, heldBackBy }: LendState): {
  readonly lending: boolean;
  readonly why: string;
} {
  const whys = heldBackBy.map(({ message }) => message);
  if (lending && noModels) whys.push('Its owner lets no models run on it.');
  return { lending: lending && !noModels, why: whys.join(' ') };
}

interface Verdict {
  readonly rule: LendRuleName;
  /** The sentence when it holds, null when it does not, a reading that is unknown when it cannot be told. */
  readonly finds: string | null | { readonly reason: string };
}

/**
 * Whether this machine is lent now. Pure.
 * 1. Every rule that is set is judged by itself; those that cannot be sensed are named and hold nothing back.
 * 2. A rule whose cause has gone holds on for its linger, unless the rules themselves were changed.
 * 3. The machine is lent when no rule holds. `since` moves when that changes, and only then. A kind of work that is
 *    not allowed holds back that kind alone, unless none is left.
 * @param previous the decision before, null at the start
 * @param now epoch ms; it may jump, both ways
 */
export function decide(rules: LendRules, sensed: Sensed, previous: Decision | null, now: number): Decision {
  // 2. What the owner has just changed takes effect at once.
  const kept = previous && sameRules(previous.rules, rules) ? previous : null;
  const seenAt: Partial<Record<LendRuleName, number>> = {};
  const heldBackBy: LendState['heldBackBy'] = [];
  const unavailable: LendState['unavailable'] = [];
  // 1.
  for (const { rule, finds } of judge(rules, sensed, kept)) {
    if (finds !== null && typeof finds === 'object') {
      unavailable.push({ rule, reason: cut(finds.reason) });
    } else if (finds !== null) {
      heldBackBy.push({ rule, message: cut(finds) });
      if (lingerMs[rule] !== undefined) seenAt[rule] = now;
      continue;
    }
    const last = kept?.seenAt[rule];
    if (last === undefined) continue;
    // A clock that was set back must not make it hold for longer.
    const since = Math.min(last, now);
    if (now - since >= (lingerMs[rule] ?? 0)) continue;
    seenAt[rule] = since;
    const before = kept?.state.heldBackBy.find((held) => held.rule === rule)?.message ?? '';
    heldBackBy.push({ rule, message: before });
  }
  // 3.
  const lending = heldBackBy.length === 0;
  const since = previous?.state.lending === lending ? previous.state.since : now;
  const noModels = rules.kinds.inference ? {} : { noModels: true };
  return { state: { lending, since, ...noModels, heldBackBy, unavailable }, seenAt, rules };
}

function judge(rules: LendRules, sensed: Sensed, kept: Decision | null): Verdict[] {
  const { giveWay, schedule, idleMinutes } = rules;
  const verdicts: Verdict[] = [{ rule: 'switch', finds: switchedOff(rules) }];
  if (schedule !== null) {
    const allows = scheduleAllows(schedule, sensed.local);
    verdicts.push({ rule: 'schedule', finds: allows ? null : 'It is not lent at this time of day.' });
  }
  if (idleMinutes !== null) {
    verdicts.push({
      rule: 'idle',
      finds: judged(sensed.idleMs, (idleMs) =>
        idleMs < idleMinutes * 60_000
          ? `Somebody uses it: it is lent after ${minutes(idleMinutes)} without keyboard or mouse.`
          : null,
      ),
    });
  }
  if (giveWay.onBattery) {
    verdicts.push({
      rule: 'battery',
      finds: judged(sensed.onBattery, (onBattery) => (onBattery ? 'It runs on battery.' : null)),
    });
  }
  if (giveWay.programs.length > 0) {
    verdicts.push({
      rule: 'program',
      finds: judged(sensed.programs, (running) => runs(giveWay.programs, running)),
    });
  }
  if (giveWay.fullScreen) {
    verdicts.push({
      rule: 'full-screen',
      finds: judged(sensed.fullScreen, (on) => (on ? 'A program fills the screen.' : null)),
    });
  }
  const { hotCelsius } = giveWay;
  if (hotCelsius !== null) {
    const wasHot = kept?.seenAt.hot !== undefined;
    const limit = wasHot ? hotCelsius - coolerByCelsius : hotCelsius;
    verdicts.push({
      rule: 'hot',
      finds: judged(sensed.celsius, (celsius) =>
        celsius >= hotCelsius || (wasHot && celsius > limit)
          ? `It is hot: ${Math.round(celsius)} °C, the limit is ${hotCelsius} °C.`
          : null,
      ),
    });
  }
  return verdicts;
}

function switchedOff({ enabled, kinds }: LendRules): string | null {
  if (!enabled) return 'Its owner has switched lending off.';
  const some = kinds.inference || kinds.kernels || kinds.commands;
  return some ? null : 'Its owner lets no kind of work run on it.';
}

/** Names are compared without case and without the `.exe` that only one system has. */
function runs(named: readonly string[], running: readonly string[]): string | null {
  const present = new Set(running.map(plain));
  const found = named.find((name) => present.has(plain(name)));
  return found === undefined ? null : `${found} is running.`;
}

function plain(name: string): string {
  return name.toLowerCase().replace(/\.exe$/, '');
}

function judged<T>(reading: Reading<T>, find: (value: T) => string | null): Verdict['finds'] {
  return reading.known ? find(reading.value) : { reason: reading.reason };
}

function sameRules(a: LendRules, b: LendRules): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

function minutes(count: number): string {
  return count === 1 ? 'a minute' : `${count} minutes`;
}

function cut(text: string): string {
  return text.slice(0, 256);
}
