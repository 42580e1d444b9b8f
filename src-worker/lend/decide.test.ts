import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lendRulesSchema, lendStateSchema, type LendRuleName, type LendRules } from '#shared/domain/lend.ts';
import { decide, lentToModels, lingerMs, type Decision, type Reading, type Sensed } from './decide.ts';
import { quiet, rulesOf } from './fixtures.ts';

const t0 = 1_800_000_000_000;
const known = <T>(value: T): Reading<T> => ({ known: true, value });
const heldBy = (decision: Decision): LendRuleName[] => decision.state.heldBackBy.map(({ rule }) => rule);

describe('one rule alone', () => {
  test.each<[LendRuleName, LendRules, Sensed]>([
    ['switch', rulesOf({ enabled: false }), quiet()],
    ['switch', rulesOf({ kinds: { inference: false, kernels: false } }), quiet()],
    ['schedule', rulesOf({ schedule: [{ days: [3], from: '13:00', to: '18:00' }] }), quiet()],
    ['idle', rulesOf({ idleMinutes: 5 }), quiet({ idleMs: known(299_999) })],
    ['battery', rulesOf({ giveWay: { onBattery: true } }), quiet({ onBattery: known(true) })],
    [
      'program',
      rulesOf({ giveWay: { programs: ['Game'] } }),
      quiet({ programs: known(['init', 'game.exe']) }),
    ],
    ['full-screen', rulesOf({ giveWay: { fullScreen: true } }), quiet({ fullScreen: known(true) })],
    ['hot', rulesOf({ giveWay: { hotCelsius: 85 } }), quiet({ celsius: known(85) })],
  ])('%s holds it back, and says why in a sentence', (rule, rules, sensed) => {
    const { state } = decide(rules, sensed, null, t0);
    expect(state.lending).toBe(false);
    expect(state.heldBackBy).toEqual([{ rule, message: expect.stringMatching(/^\S.*\.$/) }]);
  });

  test('a kind that is not allowed holds back that kind alone', () => {
    for (const kinds of [{ kernels: true }, { kernels: false, commands: true }]) {
      const { state } = decide(rulesOf({ kinds: { ...kinds, inference: false } }), quiet(), null, t0);
      expect(state).toMatchObject({ lending: true, noModels: true, heldBackBy: [] });
      expect(lentToModels(state)).toEqual({ lending: false, why: 'Its owner lets no models run on it.' });
    }
    const { state } = decide(rulesOf({ kinds: { kernels: false } }), quiet(), null, t0);
    expect(lentToModels(state)).toEqual({ lending: true, why: '' });
    const away = decide(rulesOf({ enabled: false, kinds: { inference: false } }), quiet(), null, t0).state;
    expect(lentToModels(away)).toEqual({ lending: false, why: 'Its owner has switched lending off.' });
  });

  test('none of them holds back a quiet machine', () => {
    const rules = rulesOf({
      schedule: [{ days: [3], from: '08:00', to: '18:00' }],
      idleMinutes: 5,
      giveWay: { onBattery: true, programs: ['game'], fullScreen: true, hotCelsius: 85 },
    });
    expect(decide(rules, quiet(), null, t0).state).toEqual({
      lending: true,
      since: t0,
      heldBackBy: [],
      unavailable: [],
    });
  });

  test('what cannot be sensed is named, and holds nothing back', () => {
    const rules = rulesOf({ idleMinutes: 5, giveWay: { fullScreen: true } });
    const blind: Reading<never> = { known: false, reason: 'not available on this system' };
    const { state } = decide(rules, quiet({ idleMs: blind, fullScreen: blind }), null, t0);
    expect(state.lending).toBe(true);
    expect(state.unavailable.map(({ rule }) => rule)).toEqual(['idle', 'full-screen']);
  });
});

describe('hysteresis', () => {
  const onBattery = quiet({ onBattery: known(true) });
  const rules = rulesOf({ giveWay: { onBattery: true, hotCelsius: 80 } });

  test('a cause that has gone holds on for a while, with its reason', () => {
    const held = decide(rules, onBattery, null, t0);
    const soon = decide(rules, quiet(), held, t0 + 59_999);
    expect(soon.state).toMatchObject({ lending: false, since: t0, heldBackBy: held.state.heldBackBy });
    const later = decide(rules, quiet(), soon, t0 + 60_000);
    expect(later.state).toMatchObject({ lending: true, since: t0 + 60_000 });
  });

  test('a cause that comes back begins the pause anew', () => {
    let decision = decide(rules, onBattery, null, t0);
    decision = decide(rules, quiet(), decision, t0 + 50_000);
    decision = decide(rules, onBattery, decision, t0 + 55_000);
    decision = decide(rules, quiet(), decision, t0 + 100_000);
    expect(decision.state).toMatchObject({ lending: false, since: t0 });
  });

  test('heat must fall well below the limit', () => {
    const at = (celsius: number): Sensed => quiet({ celsius: known(celsius) });
    let decision = decide(rules, at(79), null, t0);
    expect(decision.state.lending).toBe(true);
    decision = decide(rules, at(81), decision, t0 + 1_000);
    decision = decide(rules, at(77), decision, t0 + 200_000);
    expect(heldBy(decision)).toEqual(['hot']);
    decision = decide(rules, at(75), decision, t0 + 200_001);
    expect(heldBy(decision)).toEqual(['hot']);
    decision = decide(rules, at(75), decision, t0 + 260_000);
    expect(decision.state.lending).toBe(true);
  });

  test('another rule by the owner takes effect at once', () => {
    const held = decide(rules, onBattery, null, t0);
    const changed = decide(rulesOf(), onBattery, held, t0 + 1);
    expect(changed.state.lending).toBe(true);
  });

  test('a clock that is set back does not prolong it', () => {
    const held = decide(rules, onBattery, null, t0);
    const back = decide(rules, quiet(), held, t0 - 86_400_000);
    const after = decide(rules, quiet(), back, t0 - 86_400_000 + 60_000);
    expect(after.state.lending).toBe(true);
  });
});

const reading = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<Reading<T>> =>
  fc.oneof(
    { weight: 4, arbitrary: value.map(known) },
    fc.string({ maxLength: 400 }).map((reason) => ({ known: false as const, reason })),
  );
const anySensed: fc.Arbitrary<Sensed> = fc.record({
  local: fc.record({ day: fc.integer({ min: 0, max: 6 }), minute: fc.integer({ min: 0, max: 1439 }) }),
  idleMs: reading(fc.integer({ min: 0, max: 7_200_000 })),
  onBattery: reading(fc.boolean()),
  programs: reading(fc.subarray(['init', 'Game.EXE', 'editor', 'x'.repeat(128)])),
  fullScreen: reading(fc.boolean()),
  celsius: reading(fc.double({ min: 20, max: 110, noNaN: true })),
});
const time = fc
  .integer({ min: 0, max: 1439 })
  .map((m) => `${String(Math.floor(m / 60)).padStart(2, '0')}:${String(m % 60).padStart(2, '0')}`);
const anyRules: fc.Arbitrary<LendRules> = fc
  .record({
    enabled: fc.boolean(),
    schedule: fc.option(
      fc.array(
        fc.record({
          days: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 7 }),
          from: time,
          to: time,
        }),
        { maxLength: 3 },
      ),
    ),
    idleMinutes: fc.option(fc.integer({ min: 1, max: 120 })),
    giveWay: fc.record({
      onBattery: fc.boolean(),
      programs: fc.subarray(['game', 'editor', 'x'.repeat(128)]),
      fullScreen: fc.boolean(),
      hotCelsius: fc.option(fc.integer({ min: 40, max: 100 })),
    }),
    kinds: fc.record({ inference: fc.boolean(), kernels: fc.boolean(), commands: fc.boolean() }),
  })
  .map((rules) => lendRulesSchema.parse(rules));

describe('whatever happens', () => {
  test('a state fits the protocol, names each rule once, and lends exactly when nothing holds it back', () => {
    fc.assert(
      fc.property(
        anyRules,
        fc.array(fc.tuple(anySensed, fc.integer({ min: -100_000, max: 100_000 }))),
        (rules, steps) => {
          let now = t0;
          let decision: Decision | null = null;
          for (const [sensed, ms] of steps) {
            now += ms;
            decision = decide(rules, sensed, decision, now);
            const { state } = decision;
            expect(lendStateSchema.safeParse(state).success).toBe(true);
            expect(state.lending).toBe(state.heldBackBy.length === 0);
            expect(new Set(heldBy(decision)).size).toBe(state.heldBackBy.length);
            expect(state.heldBackBy.every(({ message }) => message !== '')).toBe(true);
            if (!rules.enabled) expect(heldBy(decision)).toContain('switch');
          }
        },
      ),
    );
  });

  test('deciding again on the same changes nothing', () => {
    fc.assert(
      fc.property(anyRules, anySensed, (rules, sensed) => {
        const once = decide(rules, sensed, null, t0);
        expect(decide(rules, sensed, once, t0 + 1).state).toEqual(once.state);
      }),
    );
  });

  test('a rule that lingers never flaps faster than its pause', () => {
    const rules = rulesOf({
      giveWay: { onBattery: true, programs: ['game'], fullScreen: true, hotCelsius: 80 },
    });
    const lingers = Math.min(...Object.values(lingerMs));
    fc.assert(
      fc.property(
        fc.array(fc.tuple(anySensed, fc.integer({ min: 1, max: 60_000 })), { minLength: 2 }),
        (steps) => {
          let now = t0;
          let decision: Decision | null = null;
          for (const [sensed, ms] of steps) {
            now += ms;
            const before: Decision | null = decision;
            decision = decide(rules, sensed, before, now);
            if (before?.state.lending === false && decision.state.lending) {
              expect(now - before.state.since).toBeGreaterThanOrEqual(lingers);
            }
          }
        },
      ),
    );
  });

  test('a cause that is seen holds back at once, whatever was before', () => {
    fc.assert(
      fc.property(anyRules, anySensed, anySensed, (rules, before, sensed) => {
        const decision = decide(rules, sensed, decide(rules, before, null, t0), t0 + 1);
        const { giveWay } = rules;
        if (giveWay.onBattery && sensed.onBattery.known && sensed.onBattery.value) {
          expect(heldBy(decision)).toContain('battery');
        }
        if (giveWay.fullScreen && sensed.fullScreen.known && sensed.fullScreen.value) {
          expect(heldBy(decision)).toContain('full-screen');
        }
      }),
    );
  });
});
