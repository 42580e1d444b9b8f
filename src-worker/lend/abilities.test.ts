import { expect, it } from 'vitest';
import { unavailableRules } from './abilities.ts';
import { localTime } from './schedule.ts';
import { unknown } from './sensors/system.ts';

it('names what the system cannot sense, whatever the rules are', async () => {
  const asked: string[] = [];
  const found = await unavailableRules({
    sense: (rules) => {
      asked.push(JSON.stringify(rules.giveWay));
      return Promise.resolve({
        local: localTime(0),
        idleMs: unknown('nobody tells'),
        onBattery: { known: true, value: true },
        programs: { known: true, value: ['any'] },
        fullScreen: unknown('Wayland'),
        celsius: unknown('no sensor'),
      });
    },
  });
  expect(found).toEqual([
    { rule: 'idle', reason: 'nobody tells' },
    { rule: 'full-screen', reason: 'Wayland' },
    { rule: 'hot', reason: 'no sensor' },
  ]);
  expect(asked).toHaveLength(1);
});
