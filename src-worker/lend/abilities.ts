import { lendRulesSchema, type LendState } from '#shared/domain/lend.ts';
import { decide } from './decide.ts';
import type { Sensors } from './sense.ts';

/** Asks every sensor. Only what cannot be sensed is looked at: what the rules would come to is nothing. */
const everyRule = lendRulesSchema.parse({
  idleMinutes: 1,
  giveWay: { onBattery: true, programs: ['any'], fullScreen: true, hotCelsius: 120 },
});

/** Rules that have no effect on this system, set or not, each with the reason. */
export async function unavailableRules(sensors: Pick<Sensors, 'sense'>): Promise<LendState['unavailable']> {
  const sensed = await sensors.sense(everyRule);
  return decide(everyRule, sensed, null, 0).state.unavailable;
}
