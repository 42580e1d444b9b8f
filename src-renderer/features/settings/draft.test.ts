import { expect, it } from 'vitest';
import { defaultSettings, settingsSchema } from '#shared/settings.ts';
import { changedPaths, patchBetween, problemsOf, valueAt, withDrafts } from './draft.ts';
import { allGroups } from './fields.ts';

/** `lan.port` and so on; a record that is empty by default is one setting. */
function leaves(value: object, prefix = ''): string[] {
  return Object.entries(value).flatMap(([name, part]: [string, unknown]) =>
    typeof part === 'object' && part !== null && !Array.isArray(part) && Object.keys(part).length > 0
      ? leaves(part, `${prefix}${name}.`)
      : [prefix + name],
  );
}

it('every setting of the schema has its field, and every field its setting', () => {
  const fields = allGroups.flatMap((group) => group.fields.map((field) => field.path));
  expect([...fields].sort()).toEqual(leaves(defaultSettings).sort());
});

it('a patch leads to what was wished, and back', () => {
  const before = settingsSchema.parse({ lend: { limits: { vramBytes: { CUDA0: 5, CUDA1: 6 } } } });
  const drafts = { 'lan.port': 8_000, 'lend.limits.vramBytes': { CUDA1: 7 }, 'lend.idleMinutes': 5 };
  const after = withDrafts(before, drafts);
  expect(patchBetween(before, after)).toEqual({
    lan: { port: 8_000 },
    lend: { limits: { vramBytes: { CUDA0: null, CUDA1: 7 } }, idleMinutes: 5 },
  });
  expect(patchBetween(after, before)).toEqual({
    lan: { port: 7_880 },
    lend: { limits: { vramBytes: { CUDA0: 5, CUDA1: 6 } }, idleMinutes: null },
  });
  expect(before.lan.port).toBe(7_880);
});

it('knows what differs', () => {
  const drafts = { 'lan.port': 7_880, 'api.allowedHosts': ['a'], 'lend.limits.ramBytes': null };
  expect(changedPaths(defaultSettings, drafts)).toEqual(['api.allowedHosts']);
  expect(valueAt(defaultSettings, 'lend.giveWay.onBattery')).toBe(true);
});

it('says what is wrong at the field where it is', () => {
  const of = (drafts: Record<string, unknown>): unknown => problemsOf(defaultSettings, drafts);
  expect(of({ 'lan.port': 0 })).toEqual({ 'lan.port': 'At least 1.' });
  expect(of({ 'lan.port': 70_000 })).toEqual({ 'lan.port': 'At most 65535.' });
  expect(of({ 'lan.port': null })).toHaveProperty(['lan.port']);
  expect(of({ 'lend.limits.cpuThreads': '1e5' })).toEqual({
    'lend.limits.cpuThreads': 'Digits only, such as 16 or 1.5.',
  });
  expect(of({ 'lend.limits.cpuThreads': 1.5 })).toEqual({ 'lend.limits.cpuThreads': 'A whole number.' });
  expect(of({ 'lend.limits.vramBytes': { CUDA0: 'all' } })).toHaveProperty(['lend.limits.vramBytes']);
  expect(of({ 'lan.certificateFile': '/c.pem' })).toEqual({
    'lan.keyFile': expect.stringContaining('together with lan.certificateFile') as string,
  });
  expect(of({ 'api.allowedHosts': ['good', 'Bad Host'] })).toEqual({
    'api.allowedHosts': '"Bad Host": Must be a host name in lower case, without a port.',
  });
  expect(of({ 'lend.schedule': [{ days: [1], from: '25:00', to: '08:00' }] })).toHaveProperty([
    'lend.schedule',
  ]);
  expect(of({ 'lend.limits.vramBytes': { CUDA0: -1 } })).toEqual({ 'lend.limits.vramBytes': 'At least 0.' });
  expect(of({ 'lan.port': 8_000 })).toEqual({});
});
