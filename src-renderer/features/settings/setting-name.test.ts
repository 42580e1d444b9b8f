import { expect, it } from 'vitest';
import { withSettingName } from './setting-name.ts';

it('calls a setting as its page does', () => {
  expect(withSettingName('The setting lend.giveWay.onBattery was changed from true to false.')).toBe(
    'The setting “Give way to its owner: On battery” was changed from on to off.',
  );
  expect(withSettingName('The setting lend.limits.cpuThreads was changed from null to 4.')).toBe(
    'The setting “How much it lends: CPU threads” was changed from nothing to 4.',
  );
  expect(withSettingName('The setting lend.enabled was changed from true to false.')).toBe(
    'The setting “Lend this machine” was changed from on to off.',
  );
});

it('leaves alone what it does not know', () => {
  const sentences = ['anna is draining.', 'The setting a.b was changed from 1 to 2.'];
  expect(sentences.map(withSettingName)).toEqual(sentences);
});
