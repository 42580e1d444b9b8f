import { afterEach, describe, expect, test } from 'vitest';
import type { ApiRoute } from '#shared/api/schema.ts';
import type { SelfView } from '#shared/api/self.ts';
import type { LendState } from '#shared/domain/lend.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { defaultSettings, settingsSchema } from '#shared/settings.ts';
import { scriptedIo } from '../../../e2e/support/cli-io.ts';
import { startScriptedApi, type RouteScript, type ScriptedApi } from '../../../e2e/support/scripted-api.ts';
import { at } from '../../../e2e/support/views.ts';
import { runCli } from '../main.ts';
import { lendFields, parseLendValue } from '../lend-values.ts';

let api: ScriptedApi | null = null;
afterEach(async () => {
  await api?.close();
  api = null;
});

async function covey(words: readonly string[], scripts: Partial<Record<ApiRoute, RouteScript>>) {
  api = await startScriptedApi(scripts);
  const io = scriptedIo();
  const code = await runCli(['--data', api.dataDirectory, ...words], io);
  return { code, stdout: io.stdout(), stderr: io.stderr(), requests: api.requests };
}

const lent: LendState = { lending: true, since: at - 60_000, heldBackBy: [], unavailable: [] };
const held: LendState = {
  lending: false,
  since: at - 5_000,
  heldBackBy: [{ rule: 'battery', message: 'It runs on battery.' }],
  unavailable: [{ rule: 'full-screen', reason: 'Wayland tells it to nobody' }],
};
const self = (lend: LendState | null): SelfView => ({
  role: 'worker',
  nodeId: 'a'.repeat(64) as NodeId,
  name: 'desk',
  version: '0',
  apiAddress: '',
  clusterAddress: null,
  dataDirectory: '/nowhere',
  membership: null,
  join: null,
  lend,
  notices: [],
});
const settings = (lend: object = {}) => ({
  settings: settingsSchema.parse({ lend }),
  file: '/nowhere/config.json',
  lanAddresses: [],
  lanCertificate: null,
  problems: [],
});

describe('covey lend', () => {
  test('tells whether the machine is lent, why not, its rules, and which have no effect', async () => {
    const { code, stdout, stderr } = await covey(['lend'], {
      self: () => self(held),
      settings: () => settings({ idleMinutes: 5, limits: { ramBytes: 8 * 1024 ** 3 } }),
    });
    expect(code).toBe(0);
    expect(stdout).toContain('This machine is not lent now, since 5.0 s:\n  It runs on battery.\n');
    expect(stdout).toMatch(/^ram: +8\.0 GiB at most$/m);
    expect(stdout).toMatch(/^idle: +after 5 minutes without keyboard or mouse$/m);
    expect(stderr).toBe('warning: the rule "full-screen" has no effect here: Wayland tells it to nobody\n');
  });

  test('of a controller that lends nothing says so', async () => {
    const { stdout } = await covey(['lend', 'status'], {
      self: () => self(null),
      settings: () => settings(),
    });
    expect(stdout).toContain('This machine lends nothing');
  });

  test('as JSON is state and rules', async () => {
    const { stdout } = await covey(['--json', 'lend'], {
      self: () => self(lent),
      settings: () => settings(),
    });
    expect(JSON.parse(stdout)).toEqual({ state: lent, rules: defaultSettings.lend });
  });

  test('off waits until the machine has heard it', async () => {
    const off: LendState = { ...held, heldBackBy: [{ rule: 'switch', message: 'Switched off.' }] };
    let asked = 0;
    const { stdout, requests } = await covey(['lend', 'off'], {
      setSettings: () => settings({ enabled: false }),
      self: () => self((asked += 1) < 3 ? lent : off),
    });
    expect(asked).toBe(3);
    expect(requests.find(({ route }) => route === 'setSettings')?.body).toEqual({ lend: { enabled: false } });
    expect(stdout).toContain('not lent any more');
  });

  test('on says what else holds it back', async () => {
    const { stdout } = await covey(['lend', 'on'], { setSettings: () => settings(), self: () => self(held) });
    expect(stdout).toBe('Lending is switched on, but other rules hold it back now:\n  It runs on battery.\n');
  });

  test('set changes one rule and shows it', async () => {
    const { code, stdout, requests } = await covey(['lend', 'set', 'schedule', 'mon-fri 18:00-8:00'], {
      setSettings: () => settings({ schedule: [{ days: [1, 2, 3, 4, 5], from: '18:00', to: '08:00' }] }),
    });
    expect(code).toBe(0);
    expect(requests[0]?.body).toEqual({
      lend: { schedule: [{ days: [1, 2, 3, 4, 5], from: '18:00', to: '08:00' }] },
    });
    expect(stdout).toBe('schedule: mon-fri 18:00-08:00\n');
  });

  test('set warns of a network interface that is not there, and of no other problem', async () => {
    const network = { interface: 'vpn0', ports: { from: 20_000, to: 20_010 } };
    const missing = 'The network for programs (lend.network) is not there now: no interface vpn0.';
    const { code, stdout, stderr } = await covey(['lend', 'set', 'network', 'vpn0:20000-20010'], {
      setSettings: () => ({ ...settings({ network }), problems: ['Port 7880 is taken.', missing] }),
    });
    expect(code).toBe(0);
    expect(stdout).toContain('ports 20000-20010 on vpn0');
    expect(stderr).toBe(`warning: ${missing}\n`);
  });

  test('set refuses what it does not know, with a hint, before anything is sent', async () => {
    for (const [words, message] of [
      [['bateri', 'on'], 'Did you mean battery?'],
      [['battery', 'maybe'], 'battery is either on or off, got "maybe".'],
      [['ram', 'lots'], 'ram is a size such as 8GB'],
      [['ram', '99999999TB'], 'at most 8191TB'],
      [['schedule', 'someday 8-9'], 'is no time such as'],
    ] as const) {
      const { code, stderr, requests } = await covey(['lend', 'set', ...words], {});
      expect(code).toBe(2);
      expect(stderr).toContain(message);
      expect(requests).toEqual([]);
      await api?.close();
    }
  });
});

describe('values of rules', () => {
  test.each<[string, string, object]>([
    ['threads', '4', { limits: { cpuThreads: 4 } }],
    ['threads', 'none', { limits: { cpuThreads: null } }],
    ['ram', '1.5 GiB', { limits: { ramBytes: 1.5 * 1024 ** 3 } }],
    ['disk', '500m', { limits: { diskBytes: 500 * 1024 ** 2 } }],
    ['upload', '2MB', { limits: { uploadBytesPerS: 2 * 1024 ** 2 } }],
    ['vram', 'CUDA0=6GB', { limits: { vramBytes: { CUDA0: 6 * 1024 ** 3 } } }],
    ['vram', 'CUDA0=none', { limits: { vramBytes: { CUDA0: null } } }],
    ['schedule', 'always', { schedule: null }],
    [
      'schedule',
      'daily 0:00-24:00',
      { schedule: [{ days: [0, 1, 2, 3, 4, 5, 6], from: '00:00', to: '00:00' }] },
    ],
    ['schedule', 'fri-mon 22:00-06:00', { schedule: [{ days: [0, 1, 5, 6], from: '22:00', to: '06:00' }] }],
    ['idle', '10', { idleMinutes: 10 }],
    ['programs', 'Game.exe, editor', { giveWay: { programs: ['Game.exe', 'editor'] } }],
    ['programs', 'none', { giveWay: { programs: [] } }],
    ['hot', '85', { giveWay: { hotCelsius: 85 } }],
    ['models', 'off', { kinds: { inference: false } }],
    ['commands', 'yes', { kinds: { commands: true } }],
    ['network', 'eth0:20000-20099', { network: { interface: 'eth0', ports: { from: 20_000, to: 20_099 } } }],
    ['network', 'none', { network: null }],
  ])('%s %s', (rule, text, patch) => {
    expect(parseLendValue(rule, text).patch).toEqual(patch);
  });

  test('a schedule is shown in days that people write', () => {
    const shown = (days: number[]): string | undefined =>
      lendFields(settings({ schedule: [{ days, from: '08:00', to: '09:00' }] }).settings.lend).find(
        ([name]) => name === 'schedule',
      )?.[1];
    expect(shown([0, 6])).toBe('sat,sun 08:00-09:00');
    expect(shown([0, 1, 3, 4, 5])).toBe('mon,wed-fri,sun 08:00-09:00');
    expect(shown([5, 6, 0])).toBe('fri-sun 08:00-09:00');
    expect(shown([0, 1, 2, 3, 4, 5, 6])).toBe('daily 08:00-09:00');
  });

  test('the defaults read as sentences', () => {
    for (const [, text] of lendFields(defaultSettings.lend)) expect(text).toMatch(/^[\w ]+$/);
  });
});
