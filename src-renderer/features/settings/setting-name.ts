import { allGroups } from './fields.ts';

const words: Readonly<Record<string, string>> = { true: 'on', false: 'off', null: 'nothing' };

/**
 * The sentence of a change as the controller writes it, with the setting called as its page calls it: `The setting
 * lend.giveWay.onBattery was changed from true to false.` Any other sentence stays as it is.
 */
export function withSettingName(sentence: string): string {
  const [, path, from, to] = /^The setting ([\w.]+) was changed from (.+) to (.+)\.$/s.exec(sentence) ?? [];
  const group = allGroups.find(({ fields }) => fields.some((field) => field.path === path));
  const field = group?.fields.find((one) => one.path === path);
  if (group === undefined || field === undefined || from === undefined || to === undefined) return sentence;
  const place = group.title === field.label ? field.label : `${group.title}: ${field.label}`;
  return `The setting “${place}” was changed from ${words[from] ?? from} to ${words[to] ?? to}.`;
}
