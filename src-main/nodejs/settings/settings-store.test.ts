import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { defaultSettings, settingsSchema } from '#shared/settings.ts';
import { differences, mergePatch } from './merge.ts';
import { createSettingsPort } from './settings-port.ts';
import { openSettings, settingKeys } from './settings-store.ts';

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-settings-'));
  file = join(directory, 'config.json');
});
afterEach(() => rm(directory, { recursive: true }));

describe('the file', () => {
  it('need not exist, holds only what was set, and only its owner reads it', async () => {
    const settings = await openSettings(directory);
    expect(settings.current).toEqual(defaultSettings);
    expect(await readdir(directory)).toEqual([]);
    await settings.patch({ lan: { port: 8443 } });
    await settings.patch({ api: { allowedHosts: ['desk.example'] } });
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({
      lan: { port: 8443 },
      api: { allowedHosts: ['desk.example'] },
    });
    if (process.platform !== 'win32') expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await openSettings(directory)).current).toEqual(settings.current);
  });

  it.each([
    ['{"lan":{"port":"x"}}', 'lan.port'],
    ['{"lan":{"prot":1}}', 'lan.prot'],
    ['{"__proto__":{"x":1}}', '__proto__'],
    ['{"lan":{"keyFile":"/k.pem"}}', 'lan.keyFile'],
    ['{"api":{"allowedHosts":["Desk:80"]}}', 'api.allowedHosts.0'],
    ['{"lan"', 'not JSON'],
    ['[]', 'not valid'],
    ['\u0000\u0001', 'not JSON'],
    [`"${'x'.repeat(70_000)}"`, '64 KiB'],
  ])('stops a start when it says %s', async (text, named) => {
    await writeFile(file, text);
    const error: unknown = await openSettings(directory).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'config_invalid' });
    expect((error as Error).message).toContain(file);
    expect((error as Error).message).toContain(named);
  });
});

describe('a patch', () => {
  it.each([
    [{ lan: { port: 0 } }, 'invalid_request', 'lan.port'],
    [{ lan: { port: 70_000 } }, 'invalid_request', 'lan.port'],
    [{ lan: { speed: 1 } }, 'setting_unknown', 'lan.speed'],
    [{ colour: 'red' }, 'setting_unknown', 'colour'],
    [{ api: { requireKey: 'yes' } }, 'invalid_request', 'api.requireKey'],
    [{ artifacts: { quotaBytes: -1 } }, 'invalid_request', 'artifacts.quotaBytes'],
    [{ artifacts: { quotaBytes: '50GB' } }, 'invalid_request', 'artifacts.quotaBytes'],
    [{ lan: { certificateFile: '/c.pem' } }, 'invalid_request', 'lan.keyFile'],
    [JSON.parse('{"__proto__":{"enabled":true}}') as unknown, 'setting_unknown', '__proto__'],
    ['text', 'invalid_request', undefined],
    [[], 'invalid_request', undefined],
  ])('%j is refused by %s for %s, and nothing changes', async (patch, code, field) => {
    const settings = await openSettings(directory);
    await expect(settings.patch(patch)).rejects.toMatchObject({ code, details: field ? { field } : {} });
    expect(settings.current).toEqual(defaultSettings);
    expect(await readdir(directory)).toEqual([]);
  });

  it.each([
    [{ lan: { port: 0 } }, 'lan.port must be a whole number from 1 to 65535.'],
    [{ lan: { port: 1.5 } }, 'lan.port must be a whole number from 1 to 65535.'],
    [{ lan: { port: 'x' } }, 'lan.port must be a whole number from 1 to 65535.'],
    [{ lan: 5 }, 'lan must be an object of settings.'],
    [[], 'What is set must be an object of settings.'],
    [{ api: { requireKey: 1 } }, 'api.requireKey must be true or false.'],
    [{ api: { allowedHosts: 'x' } }, 'api.allowedHosts must be a list of at most 32 host names.'],
    [
      { api: { allowedHosts: [''] } },
      'api.allowedHosts.0 must be a host name in lower case, without a port.',
    ],
    [
      { lend: { network: { interface: 'e', ports: { from: 80, to: 90 } } } },
      'lend.network.ports.from must be at least 1024.',
    ],
    [{ lan: { keyFile: '' } }, 'lan.keyFile must be the path of a file, of at most 4096 characters.'],
    [
      { lan: { keyFile: '/k' } },
      'lan.keyFile must be set together with lan.certificateFile, or neither of the two.',
    ],
  ])('%j is refused in a plain sentence', async (patch, sentence) => {
    const settings = await openSettings(directory);
    await expect(settings.patch(patch)).rejects.toMatchObject({ message: sentence });
  });

  it('null is the default again', async () => {
    const settings = await openSettings(directory);
    await settings.patch({ lan: { port: 8443, certificateFile: '/c', keyFile: '/k' } });
    await settings.patch({ lan: { port: null } });
    expect(settings.current.lan).toMatchObject({ port: 7880, certificateFile: '/c' });
    await settings.patch({ lan: null });
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({});
  });

  it('tells listeners, may be forbidden, and several at once are applied in turn', async () => {
    const settings = await openSettings(directory);
    const seen: number[] = [];
    const remove = settings.onChange((now) => seen.push(now.lan.port));
    await Promise.all([8_001, 8_002, 8_003].map((port) => settings.patch({ lan: { port } })));
    const forbid = (): never => {
      throw new CoveyError('lan_needs_key', 'no');
    };
    await expect(settings.patch({ lan: { port: 9 } }, forbid)).rejects.toMatchObject({
      code: 'lan_needs_key',
    });
    remove();
    await settings.patch({ lan: { port: 8_004 } });
    expect(seen).toEqual([8_001, 8_002, 8_003]);
    expect(settings.current.lan.port).toBe(8_004);
  });

  it('that cannot be written is no change', async () => {
    const settings = await openSettings(directory);
    await rm(directory, { recursive: true });
    await writeFile(directory, 'in the way');
    await expect(settings.patch({ lan: { port: 8_001 } })).rejects.toMatchObject({ code: 'disk_full' });
    expect(settings.current).toEqual(defaultSettings);
  });

  it('whatever it holds, it is refused by name or leaves settings that are valid', async () => {
    const settings = await openSettings(directory);
    const leaf = fc.oneof(fc.jsonValue(), fc.boolean(), fc.integer(), fc.constant(null));
    const part = fc.dictionary(
      fc.constantFrom('enabled', 'port', 'requireKey', 'allowedHosts', 'certificateFile', '__proto__', 'x'),
      leaf,
    );
    const patches = fc.dictionary(
      fc.constantFrom('lan', 'api', 'discovery', 'constructor', '__proto__'),
      part,
    );
    await fc.assert(
      fc.asyncProperty(patches, async (patch) => {
        try {
          const next = await settings.patch(JSON.parse(JSON.stringify(patch)));
          expect(settingsSchema.parse(next)).toEqual(next);
        } catch (error) {
          expect(['invalid_request', 'setting_unknown']).toContain((error as CoveyError).code);
        }
        expect(({} as Record<string, unknown>)['enabled']).toBeUndefined();
      }),
      { numRuns: 200 },
    );
  });
});

it('merges as RFC 7396 has it', () => {
  expect(mergePatch({ a: 'b', c: { d: 'e', f: 'g' } }, { a: 'z', c: { f: null } })).toEqual({
    a: 'z',
    c: { d: 'e' },
  });
  expect(mergePatch({ a: [1, 2] }, { a: [3] })).toEqual({ a: [3] });
  expect(mergePatch(['a'], { b: 1 })).toEqual({ b: 1 });
  expect(differences({ a: 1, b: { c: [1], d: 2 } }, { a: 1, b: { c: [2], d: 2 } })).toEqual([
    { key: 'b.c', before: [1], after: [2] },
  ]);
});

it('knows every key', () => {
  expect(settingKeys()).toContain('lan.certificateFile');
  expect(settingKeys()).toContain('api.allowedHosts');
});

it('a number that is too large has its limit in words, and no setting is called null', async () => {
  const store = await openSettings(directory);
  await expect(store.patch({ lend: { limits: { ramBytes: 1e20 } } })).rejects.toMatchObject({
    message: 'lend.limits.ramBytes must be less than 8 PiB.',
  });
  const said: string[] = [];
  const port = createSettingsPort({ store, lan: () => null, onChanged: (sentence) => said.push(sentence) });
  await port.patch({ artifacts: { quotaBytes: 104_857_600 } });
  await port.patch({ artifacts: { quotaBytes: null } });
  expect(said).toEqual([
    'The setting artifacts.quotaBytes was changed from none to 104857600.',
    'The setting artifacts.quotaBytes was changed from 104857600 to none.',
  ]);
});

it('a port says what changed and what keeps it from having effect', async () => {
  const store = await openSettings(directory);
  const said: string[] = [];
  const port = createSettingsPort({ store, lan: () => null, onChanged: (sentence) => said.push(sentence) });
  const view = await port.patch({ lan: { enabled: true, port: 8443 } });
  expect(said).toEqual([
    'The setting lan.enabled was changed from false to true.',
    'The setting lan.port was changed from 7880 to 8443.',
  ]);
  expect(view).toMatchObject({ file, lanAddresses: [], lanCertificate: null });
  expect(view.problems).toEqual([expect.stringContaining('worker')]);
});

it('tells of a network interface that is not there, and keeps it: it may come back', async () => {
  const store = await openSettings(directory);
  const port = createSettingsPort({ store, lan: () => null });
  const network = { interface: 'nope0', ports: { from: 20_000, to: 20_010 } };
  const { settings, problems } = await port.patch({ lend: { network } });
  expect(settings.lend.network).toEqual(network);
  expect(problems).toEqual([
    expect.stringMatching(/\(lend\.network\) is not there now: no interface nope0 /),
  ]);
  expect((await port.patch({ lend: { network: null } })).problems).toEqual([]);
});
