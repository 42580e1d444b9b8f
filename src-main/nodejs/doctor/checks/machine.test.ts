import { describe, expect, it } from 'vitest';
import type { Hardware } from '#shared/domain/node.ts';
import { exampleContext, fakeSystem, runningNode, type Machine } from '../fixtures.ts';
import type { DoctorSystem } from '../system.ts';
import { checkGraphics } from './graphics.ts';
import { checkSleep, parseTimeSpan } from './sleep.ts';

const cpu = {
  id: 'CPU',
  kind: 'cpu',
  backend: 'CPU',
  name: 'CPU',
  totalBytes: 1,
  freeBytes: 1,
  pciId: null,
} as const;
const cuda = { ...cpu, id: 'CUDA0', kind: 'gpu', backend: 'CUDA', name: 'NVIDIA GeForce RTX 3090' } as const;
const rtx = { vendor: 'NVIDIA', model: 'GeForce RTX 3090', vramBytes: 1, driver: '550.1' };

function hardware(gpus: Hardware['gpus'], devices: Hardware['devices']): Hardware {
  const unknown = { known: false, reason: 'not asked' } as const;
  return {
    os: { platform: 'linux', arch: 'x64', release: '6', hostname: 'desk' },
    cpu: unknown,
    ram: unknown,
    disk: unknown,
    gpus,
    devices,
  };
}

describe('graphics', () => {
  const known = <T>(value: T) => ({ known: true as const, value });
  const check = (gpus: Hardware['gpus'], devices: Hardware['devices']) =>
    checkGraphics(exampleContext({ node: runningNode({ hardware: hardware(gpus, devices) }) }));

  it('is fine when every card computes, or when there is none', () => {
    expect(check(known([rtx]), known([cpu, cuda]))).toMatchObject({
      status: 'ok',
      summary: 'The engine computes on NVIDIA GeForce RTX 3090 (CUDA0), driver 550.1',
    });
    expect(check(known([]), known([cpu])).status).toBe('ok');
    const paints = { vendor: 'Red Hat, Inc.', model: 'Virtio 1.0 GPU', vramBytes: null, driver: null };
    expect(check(known([paints]), known([cpu]))).toMatchObject({
      status: 'ok',
      summary: expect.stringContaining('CPU'),
    });
    expect(check({ known: false, reason: 'late' }, known([cpu, cuda])).status).toBe('ok');
  });

  it('says what to install for a card that the engine does not see', () => {
    const withDriver = check(known([rtx]), known([cpu]));
    expect(withDriver).toMatchObject({ status: 'warn', action: expect.stringContaining('CUDA or Vulkan') });
    expect(withDriver.summary).toContain('does not use GeForce RTX 3090, so the CPU computes');
    expect(check(known([{ ...rtx, driver: null }]), known([cpu])).action).toContain("NVIDIA's driver");
    const radeon = { vendor: 'AMD', model: 'Radeon RX 7900', vramBytes: 1, driver: null };
    const both = check(known([rtx, radeon]), known([cpu, cuda]));
    expect(both).toMatchObject({ status: 'warn', action: expect.stringContaining('mesa-vulkan-drivers') });
    expect(both.summary).toBe('The engine does not use Radeon RX 7900, only NVIDIA GeForce RTX 3090 (CUDA0)');
  });

  it('fails when the engine cannot list its devices, and is skipped where nobody computes', () => {
    expect(check(known([]), { known: false, reason: 'it crashed. Sorry.' })).toMatchObject({
      status: 'fail',
      summary: expect.stringContaining('it crashed'),
    });
    expect(check({ known: false, reason: 'late' }, known([cpu])).status).toBe('skipped');
    expect(checkGraphics(exampleContext({ node: runningNode({ lends: false }) })).status).toBe('skipped');
    expect(checkGraphics(exampleContext({ node: null })).status).toBe('skipped');
    expect(checkGraphics(exampleContext()).summary).toContain('not probed yet');
  });
});

describe('sleep', () => {
  const check = (machine: Machine, changes: Partial<DoctorSystem> = {}) =>
    checkSleep(exampleContext(), fakeSystem(machine, changes));
  const systemd = { '/run/systemd/system': ['x'] };
  const gnome = 'gsettings get org.gnome.settings-daemon.plugins.power';

  it('cannot be sensed without systemd', async () => {
    expect(await check({})).toMatchObject({ status: 'skipped', summary: expect.stringContaining('systemd') });
  });

  it.each<[string, Machine, string, RegExp]>([
    ['no idle suspend', { lists: systemd }, 'ok', /does not go to sleep/],
    ['masked', { lists: systemd, commands: { systemctl: { code: 1, stdout: 'masked\n' } } }, 'ok', /masked/],
    ['a kernel without it', { texts: { '/sys/power/state': '\n' } }, 'ok', /kernel/],
    [
      'forbidden by a drop-in',
      {
        lists: { ...systemd, '/etc/systemd/sleep.conf.d': ['a.conf', 'README'] },
        texts: { '/etc/systemd/sleep.conf.d/a.conf': '[Sleep]\n AllowSuspend = no\n' },
      },
      'ok',
      /AllowSuspend=no/,
    ],
    [
      'logind suspends when idle',
      {
        lists: systemd,
        texts: {
          '/etc/systemd/logind.conf': '#IdleAction=ignore\nIdleAction=suspend\nIdleActionSec=20min\n',
        },
      },
      'warn',
      /after 20 minutes without use.*mask suspend\.target/,
    ],
    [
      'the desktop suspends when idle',
      {
        lists: systemd,
        commands: {
          [`${gnome} sleep-inactive-ac-type`]: "'suspend'\n",
          [`${gnome} sleep-inactive-ac-timeout`]: 'uint32 900\n',
        },
      },
      'warn',
      /after 15 minutes/,
    ],
    [
      'the desktop would, but never',
      {
        lists: systemd,
        commands: {
          [`${gnome} sleep-inactive-ac-type`]: "'suspend'\n",
          [`${gnome} sleep-inactive-ac-timeout`]: '0\n',
        },
      },
      'ok',
      /does not/,
    ],
    [
      'a lid',
      { lists: { ...systemd, '/proc/acpi/button/lid': ['LID0'] } },
      'warn',
      /lid is closed.*HandleLidSwitch/,
    ],
    [
      'a lid that is ignored',
      {
        lists: { ...systemd, '/proc/acpi/button/lid': ['LID0'] },
        texts: { '/etc/systemd/logind.conf': 'HandleLidSwitch=ignore' },
      },
      'ok',
      /does not/,
    ],
  ])('Linux: %s', async (_name, machine, status, text) => {
    const found = await check(machine);
    expect([found.status, `${found.summary} ${found.action ?? ''}`]).toEqual([
      status,
      expect.stringMatching(text),
    ]);
  });

  const pmset = (ac: string, battery = '') => ({
    commands: { pmset: `${battery}AC Power:\n womp 1\n${ac}\n displaysleep 10\n` },
  });
  const laptop = 'Battery Power:\n sleep 1\n';
  it.each<[string, Machine, string, RegExp]>([
    ['never', pmset(' sleep                0 (sleep prevented by caffeinate)'), 'ok', /does not/],
    ['after a while', pmset(' sleep                10'), 'warn', /10 minutes.*pmset -c sleep 0/],
    ['battery counts less', pmset(' sleep 0\n disablesleep 1', laptop), 'ok', /does not/],
    ['a lid', pmset(' sleep 0', laptop), 'warn', /lid/],
    ['no pmset', {}, 'skipped', /no "pmset"/],
    ['something else', { commands: { pmset: 'huh' } }, 'skipped', /does not name/],
  ])('macOS: %s', async (_name, machine, status, text) => {
    const found = await check(machine, { platform: 'darwin' });
    expect([found.status, `${found.summary} ${found.action ?? ''}`]).toEqual([
      status,
      expect.stringMatching(text),
    ]);
  });

  const powercfg = (idle: string, lid: string) => ({
    commands: {
      'powercfg /query SCHEME_CURRENT SUB_SLEEP STANDBYIDLE': `Höchstwert: 0xffffffff\r\n Wechselstrom: 0x${idle}\r\n Akku: 0x00000384\r\n`,
      'powercfg /query SCHEME_CURRENT SUB_BUTTONS LIDACTION': ` AC: 0x${lid}\n DC: 0x00000001\n`,
    },
  });
  it.each<[string, Machine, string, RegExp]>([
    ['never', powercfg('00000000', '00000000'), 'ok', /does not/],
    ['after half an hour', powercfg('00000708', '00000000'), 'warn', /30 minutes.*powercfg \/change/],
    ['a lid', powercfg('00000000', '00000001'), 'warn', /lid.*Do nothing/],
    ['no powercfg', {}, 'skipped', /no "powercfg"/],
  ])('Windows: %s', async (_name, machine, status, text) => {
    const found = await check(machine, { platform: 'win32' });
    expect([found.status, `${found.summary} ${found.action ?? ''}`]).toEqual([
      status,
      expect.stringMatching(text),
    ]);
  });

  it('reads the spans of systemd', () => {
    expect(['30min', '1h 30min', '900', '90s', '2hours'].map(parseTimeSpan)).toEqual([
      1_800_000, 5_400_000, 900_000, 90_000, 7_200_000,
    ]);
  });
});
