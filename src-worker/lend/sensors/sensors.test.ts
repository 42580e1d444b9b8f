import { describe, expect, test } from 'vitest';
import { batterySensor } from './battery.ts';
import { scriptedSystem } from './fixtures.ts';
import { readSensorsFile } from './from-file.ts';
import { fullScreenSensor } from './full-screen.ts';
import { idleSensor, leastIdleMs } from './idle.ts';
import { programsSensor } from './programs.ts';
import type { SensorSystem } from './system.ts';
import { temperatureSensor } from './temperature.ts';
import { createWindowsWatch, parseWindowsLine } from './windows-watch.ts';

const known = <T>(value: T) => ({ known: true, value });
const reason = (text: string | RegExp) => ({
  known: false,
  reason: typeof text === 'string' ? text : expect.stringMatching(text),
});
const idle = (system: SensorSystem) => idleSensor(system, createWindowsWatch(system)).read();
const battery = (system: SensorSystem) => batterySensor(system, createWindowsWatch(system)).read();
const fullScreen = (system: SensorSystem) => fullScreenSensor(system, createWindowsWatch(system)).read();

describe('idle', () => {
  const now = 1_800_000_000_000;
  const session = (fields: Record<string, string>): string =>
    Object.entries({
      Class: 'user',
      Remote: 'no',
      State: 'active',
      IdleHint: 'no',
      IdleSinceHint: '0',
      ...fields,
    })
      .map(([name, value]) => `${name}=${value}`)
      .join('\n');

  test('is what the X server says, in its session', async () => {
    const env = { DISPLAY: ':0' };
    expect(await idle(scriptedSystem({ env, commands: { xprintidle: '61234\n' } }))).toEqual(known(61_234));
  });

  test('of several sessions is that of the person who was active last', () => {
    const shown = [
      session({ IdleHint: 'yes', IdleSinceHint: String((now - 600_000) * 1_000) }),
      session({ IdleHint: 'yes', IdleSinceHint: String((now - 60_000) * 1_000) }),
      session({ Remote: 'yes' }),
      session({ Class: 'greeter' }),
      session({ State: 'closing' }),
    ];
    expect(leastIdleMs(shown.join('\n\n'), now)).toBe(60_000);
    expect(leastIdleMs([...shown, session({})].join('\n\n'), now)).toBe(0);
  });

  test('is asked of logind where there is no X session, or no xprintidle', async () => {
    const commands = {
      'loginctl list-sessions --no-legend --no-pager': ' c2 1000 me seat0\n',
      loginctl: session({ IdleHint: 'yes', IdleSinceHint: String((now - 1_000) * 1_000) }),
    };
    const system = scriptedSystem({ env: { DISPLAY: ':0' }, commands, now: () => now });
    expect(await idle(system)).toEqual(known(1_000));
    expect(system.ran.at(-1)).toMatch(/^loginctl show-session c2 -p IdleHint /);
  });

  test('of a machine where nobody is logged in is long', async () => {
    const reading = await idle(scriptedSystem({ commands: { loginctl: '' } }));
    expect(reading.known && reading.value > 86_400_000).toBe(true);
  });

  test('of a system without either is unknown, and says what is missing', async () => {
    expect(await idle(scriptedSystem({}))).toEqual(reason(/xprintidle nor logind/));
  });

  test('on a Mac stands in the registry, in nanoseconds', async () => {
    const commands = { '/usr/sbin/ioreg': '    |   "HIDIdleTime" = 5000000000\n' };
    expect(await idle(scriptedSystem({ platform: 'darwin', commands }))).toEqual(known(5_000));
    expect(await idle(scriptedSystem({ platform: 'darwin' }))).toEqual(reason(/ioreg/));
  });
});

describe('battery', () => {
  const supply = (name: string, fields: Record<string, string>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(fields).map(([file, text]) => [`/sys/class/power_supply/${name}/${file}`, `${text}\n`]),
    );

  test.each([
    ['no battery', {}, false],
    ['a battery that empties', supply('BAT0', { type: 'Battery', status: 'Discharging' }), true],
    [
      'a battery that empties while the mains are there',
      {
        ...supply('BAT0', { type: 'Battery', status: 'Discharging' }),
        ...supply('AC', { type: 'Mains', online: '1' }),
      },
      false,
    ],
    [
      'mains that are off',
      {
        ...supply('AC', { type: 'Mains', online: '0' }),
        ...supply('BAT1', { type: 'Battery', status: 'Discharging' }),
      },
      true,
    ],
    ['a full battery', supply('BAT0', { type: 'Battery', status: 'Full' }), false],
    ["a mouse's battery", supply('hid', { type: 'Battery', status: 'Discharging', scope: 'Device' }), false],
  ])('%s', async (_name, files, expected) => {
    expect(await battery(scriptedSystem({ files }))).toEqual(known(expected));
  });

  test('of a Mac is told by pmset', async () => {
    const on = (source: string): Promise<unknown> =>
      battery(
        scriptedSystem({
          platform: 'darwin',
          commands: { '/usr/bin/pmset': `Now drawing from '${source}'\n` },
        }),
      );
    expect(await on('Battery Power')).toEqual(known(true));
    expect(await on('AC Power')).toEqual(known(false));
  });
});

describe('programs', () => {
  test('on Linux have the name of the kernel and the one that they were called by', async () => {
    const files = {
      '/proc/1/comm': 'systemd\n',
      '/proc/1/cmdline': '/sbin/init\0splash\0',
      '/proc/77/comm': 'a-very-long-pro\n',
      '/proc/77/cmdline': '/opt/a-very-long-program-name\0--flag\0',
      '/proc/78/comm': 'wine64-preload\n',
      '/proc/78/cmdline': 'C:\\Games\\Game.exe\0',
      '/proc/9/comm': 'kthreadd\n',
      '/proc/9/cmdline': '',
      '/proc/self/comm': 'me\n',
    };
    const reading = await programsSensor(scriptedSystem({ files })).read();
    expect(new Set(reading.known ? reading.value : [])).toEqual(
      new Set([
        'systemd',
        'init',
        'a-very-long-pro',
        'a-very-long-program-name',
        'wine64-preload',
        'Game.exe',
        'kthreadd',
      ]),
    );
  });

  test('elsewhere are listed by the system', async () => {
    const windows = scriptedSystem({
      platform: 'win32',
      commands: {
        tasklist: '"System","4","Services","0","144 K"\r\n"Game.exe","99","Console","1","9 K"\r\n',
      },
    });
    expect(await programsSensor(windows).read()).toEqual(known(['System', 'Game.exe']));
    const mac = scriptedSystem({
      platform: 'darwin',
      commands: { '/bin/ps': '/sbin/launchd\n/Applications/Final Cut.app/Contents/MacOS/Final Cut\n' },
    });
    expect(await programsSensor(mac).read()).toEqual(known(['launchd', 'Final Cut']));
  });

  test('of the system that runs this test include this one', async () => {
    const { realSystem } = await import('./system.ts');
    const reading = await programsSensor(realSystem).read();
    expect(reading.known && reading.value.some((name) => /node/i.test(name))).toBe(true);
  });
});

describe('full screen', () => {
  const x11 = (active: string, state: string): Promise<unknown> =>
    fullScreen(
      scriptedSystem({
        env: { DISPLAY: ':0' },
        commands: {
          'xprop -root -notype _NET_ACTIVE_WINDOW': active,
          'xprop -id 0x3a00007 -notype _NET_WM_STATE': state,
        },
      }),
    );
  test('is what the window manager says of its active window', async () => {
    const active = '_NET_ACTIVE_WINDOW: window id # 0x3a00007\n';
    expect(await x11(active, '_NET_WM_STATE = _NET_WM_STATE_FULLSCREEN\n')).toEqual(known(true));
    expect(await x11(active, '_NET_WM_STATE = _NET_WM_STATE_FOCUSED\n')).toEqual(known(false));
    expect(await x11('_NET_ACTIVE_WINDOW: window id # 0x0\n', '')).toEqual(known(false));
    expect(await x11('_NET_ACTIVE_WINDOW:  not found.\n', '')).toEqual(reason(/window manager/));
  });
  test('is unknown where nobody tells it', async () => {
    expect(await fullScreen(scriptedSystem({}))).toEqual(reason(/no X11 session/));
    const wayland = { DISPLAY: ':0', WAYLAND_DISPLAY: 'wayland-0' };
    expect(await fullScreen(scriptedSystem({ env: wayland }))).toEqual(reason(/Wayland/));
    expect(await fullScreen(scriptedSystem({ platform: 'darwin' }))).toEqual(
      reason('not available on this system'),
    );
  });
});

describe('temperature', () => {
  test('is the hottest credible sensor', async () => {
    const files = {
      '/sys/class/thermal/thermal_zone0/temp': '45000\n',
      '/sys/class/thermal/cooling_device0/temp': '99000\n',
      '/sys/class/hwmon/hwmon1/temp1_input': '71500\n',
      '/sys/class/hwmon/hwmon1/temp1_max': '100000\n',
      '/sys/class/hwmon/hwmon2/temp1_input': '127000\n',
      '/sys/class/hwmon/hwmon2/temp2_input': '-128000\n',
    };
    expect(await temperatureSensor(scriptedSystem({ files })).read()).toEqual(known(71.5));
  });
  test('is unknown where there is no sensor', async () => {
    expect(await temperatureSensor(scriptedSystem({})).read()).toEqual(reason(/no temperature/));
  });
});

describe('Windows', () => {
  test('tells all in one line', () => {
    expect(parseWindowsLine('1234 0 3\r')).toEqual({
      idleMs: known(1_234),
      onBattery: known(true),
      fullScreen: known(true),
    });
    expect(parseWindowsLine('-1 255 -1')).toEqual({
      idleMs: reason(/last input/),
      onBattery: reason(/power source/),
      fullScreen: reason(/fills the screen/),
    });
    expect(parseWindowsLine('Add-Type : error')).toBeNull();
  });

  test('is asked by one program, which is started again when it ends, but not in a loop', async () => {
    let now = 0;
    let started = 0;
    let tell: (line: string) => void = () => undefined;
    let end: (reason: string) => void = () => undefined;
    let ended = 0;
    const system = scriptedSystem({
      platform: 'win32',
      now: () => now,
      watch: (_file, _args, on) => {
        started += 1;
        tell = on.line;
        end = on.end;
        return { end: () => (ended += 1) };
      },
    });
    const watch = createWindowsWatch(system);
    const read = () => watch.read((seen) => seen.idleMs);
    expect(await read()).toEqual(reason(/nothing yet/));
    tell('500 1 5');
    expect(await read()).toEqual(known(500));
    now = 10_000;
    expect(await read()).toMatchObject({ known: false });
    end('"powershell.exe" ended');
    expect(await read()).toEqual(reason(/ended/));
    expect(started).toBe(1);
    now = 30_000;
    await read();
    expect(started).toBe(2);
    watch.close();
    expect(ended).toBe(1);
    now = 90_000;
    await read();
    expect(started).toBe(2);
  });
});

describe('a file that stands in', () => {
  const read = (text: string | null) =>
    readSensorsFile(scriptedSystem(text === null ? {} : { files: { '/s.json': text } }), '/s.json');

  test('gives what is in it, and says what is not', async () => {
    const sensor = await read('{"idleMs": 5, "onBattery": true}');
    expect(sensor('idleMs')).toEqual(known(5));
    expect(sensor('onBattery')).toEqual(known(true));
    expect(sensor('celsius')).toEqual(reason(/s\.json has no celsius/));
  });
  test.each([
    [null, /cannot be read/],
    ['{', /is not JSON/],
    ['{"idleMs": "5"}', /is wrong at idleMs/],
    ['[]', /is wrong at its top/],
    ['{"mouse": 1}', /is wrong/],
  ])('that is no good says why: %s', async (text, why) => {
    expect((await read(text))('idleMs')).toEqual(reason(why));
  });
});
