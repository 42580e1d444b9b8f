import { lendRulesSchema, type LendRules } from '#shared/domain/lend.ts';
import type { z } from 'zod';
import type { Sensed } from './decide.ts';

/** For tests: rules with everything off but what is given; the defaults give way on battery. */
export function rulesOf(given: z.input<typeof lendRulesSchema> = {}): LendRules {
  return lendRulesSchema.parse({ ...given, giveWay: { onBattery: false, ...given.giveWay } });
}

/** For tests: a machine at which nothing happens, Wednesday noon. */
export function quiet(changes: Partial<Sensed> = {}): Sensed {
  return {
    local: { day: 3, minute: 12 * 60 },
    idleMs: { known: true, value: 3_600_000 },
    onBattery: { known: true, value: false },
    programs: { known: true, value: [] },
    fullScreen: { known: true, value: false },
    celsius: { known: true, value: 45 },
    ...changes,
  };
}
