import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { settingsSchema } from '#shared/settings.ts';
import { ensureLocalAccess } from '../../access/local-access.ts';
import { writeMembership } from '../../membership.ts';
import type { DoctorContext } from '../context.ts';
import {
  at,
  dataDirectory,
  ethernet,
  exampleContext,
  fakeSystem,
  runningNode,
  unreachable,
} from '../fixtures.ts';
import type { DoctorSystem } from '../system.ts';
import { cases } from './cases.ts';
import { checkClock, skewFinding, spanText } from './clock.ts';
import { checkInterfaces, checkMulticast } from './multicast.ts';
import { checkPorts } from './ports.ts';
import { checkEngine, checkProgram, checkSettings } from './program.ts';
import { checkController, openPortText } from './reach.ts';

const day = 86_400_000;
const contact = runningNode().controller;
const ahead = (ms: number): Partial<DoctorContext> => ({
  node: runningNode({ controller: contact && { ...contact, clockAheadMs: ms } }),
});
const settings = (input: unknown): Pick<DoctorContext, 'settings'> => ({
  settings: settingsSchema.parse(input),
});

describe('clock', () => {
  cases(checkClock, [
    ['agrees', ahead(-40), fakeSystem(), 'ok', /within 40 ms ->/],
    ['a little ahead', ahead(90_000), fakeSystem(), 'warn', /90 s ahead of the controller's.*timedatectl/],
    ['a day behind', ahead(-day), fakeSystem(), 'fail', /1 day behind the controller's.*timedatectl/],
    ['in 1970', {}, fakeSystem({}, { now: () => 5_000 }), 'fail', /1970-01-01T00:00Z, which cannot be/],
    ['no number at all', {}, fakeSystem({}, { now: () => NaN }), 'ok', /clock/],
    [
      'set back since files were written',
      { node: null },
      fakeSystem({ files: { [join(dataDirectory, 'covey.db')]: { modifiedAt: at + day } } }),
      'fail',
      /covey\.db was written 1 day later: the clock was set back/,
    ],
    [
      'network time is off',
      { node: null },
      fakeSystem({ commands: { timedatectl: 'NTP=no\nNTPSynchronized=no\n' } }),
      'warn',
      /network time is off.*set-ntp/,
    ],
    [
      'follows network time',
      { node: null },
      fakeSystem({ commands: { timedatectl: 'NTP=yes\nNTPSynchronized=yes\n' } }),
      'ok',
      /follows network time/,
    ],
    [
      'another system says where to set it',
      ahead(day),
      fakeSystem({}, { platform: 'win32' }),
      'fail',
      /Settings, Time/,
    ],
  ]);

  it('judges a difference the same for both who measure it', () => {
    expect(skewFinding(4_000).status).toBe('ok');
    expect(skewFinding(-6_000)).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('6 s behind'),
    });
    expect(skewFinding(day).status).toBe('fail');
    expect([300, 7_400, 720_000, 5 * 3_600_000, day, 3 * day].map(spanText)).toEqual([
      '300 ms',
      '7 s',
      '12 min',
      '5 h',
      '1 day',
      '3 days',
    ]);
  });
});

describe('program, engine, settings', () => {
  cases(checkProgram, [
    ['new enough', {}, fakeSystem(), 'ok', /0\.1\.0 on Node\.js 24/],
    ['too old', {}, fakeSystem({}, { nodeVersion: '22.3.0' }), 'fail', /Install Node\.js 24/],
  ]);
  const none = { engine: { buildId: null, reason: 'there is no engine in /x. Run it.' } } as const;
  cases(checkEngine, [
    ['there', {}, fakeSystem(), 'ok', /v0\.4\.0-test/],
    ['missing where it is needed', none, fakeSystem(), 'fail', /no engine in \/x -> Run/],
    [
      'missing where nothing is computed',
      { ...none, node: runningNode({ lends: false, role: 'controller' }) },
      fakeSystem(),
      'skipped',
      /no engine/,
    ],
  ]);
  cases(checkSettings, [
    ['good', {}, fakeSystem(), 'ok', /config\.json/],
    [
      'damaged',
      { settingsProblem: { code: 'config_invalid', message: '/d/config.json: lan.port: too big.' } },
      fakeSystem(),
      'fail',
      /lan\.port: too big ->.*Correct/,
    ],
  ]);
});

describe('ports', () => {
  const listeners = (
    used: Readonly<Record<number, readonly { name: string | null; pid: number | null }[]>>,
  ) => ({
    ports: async (questions: readonly { readonly port: number }[]) =>
      questions.map(({ port }) => ({ known: true as const, users: used[port] ?? [] })),
  });
  const port = (id: string) => async (context: DoctorContext, system: DoctorSystem) => {
    const found = (await checkPorts(context, system)).find((check) => check.id === id);
    if (!found) throw new Error(`no check ${id}`);
    return found;
  };
  const nginx = { name: 'nginx', pid: 77 };

  cases(port('port-cluster'), [
    ['free', { node: null }, fakeSystem(), 'ok', /Port 7879, the default for the other machines, is free/],
    [
      'taken by a known program',
      { node: null },
      fakeSystem({}, listeners({ 7879: [nginx] })),
      'fail',
      /taken by "nginx" \(pid 77\).*--cluster HOST:PORT/,
    ],
    [
      'taken by somebody who is hidden',
      { node: null },
      fakeSystem({}, listeners({ 7879: [{ name: null, pid: null }] })),
      'fail',
      /taken by a program of another user/,
    ],
    [
      'held by the node of this data directory, whose API is closed',
      { node: null },
      fakeSystem(
        { texts: { [join(dataDirectory, 'lock')]: '{"pid":55,"startedAt":null}' } },
        {
          ...listeners({ 7879: [{ name: 'node', pid: 56 }] }),
          parentOf: async (pid) => (pid === 56 ? 55 : 1),
        },
      ),
      'ok',
      /is ours/,
    ],
    [
      'held by the running node',
      {},
      fakeSystem({}, listeners({ 7879: [{ name: 'node', pid: 4000 }] })),
      'ok',
      /ours/,
    ],
    [
      'shared with another address',
      {},
      fakeSystem({}, listeners({ 7879: [{ name: 'node', pid: 4000 }, nginx] })),
      'warn',
      /ours, but "nginx" \(pid 77\) listens there too/,
    ],
    [
      'unknown',
      { node: null },
      fakeSystem(
        {},
        { ports: async (all) => all.map(() => ({ known: false, reason: 'there is no "lsof" here' })) },
      ),
      'skipped',
      /not known: there is no "lsof" here/,
    ],
    ['closed on purpose', { node: runningNode({ clusterAddress: null }) }, fakeSystem(), 'warn', /closed/],
  ]);
  cases(port('port-api'), [
    ['taken', { node: null }, fakeSystem({}, listeners({ 7878: [nginx] })), 'fail', /7878.*nginx.*--api/],
    ['none wanted', { node: runningNode({ apiAddress: null }) }, fakeSystem(), 'skipped', /without an API/],
    [
      'another port',
      { node: runningNode({ apiAddress: 'http://127.0.0.1:9000' }) },
      fakeSystem(),
      'ok',
      /Port 9000/,
    ],
  ]);
  cases(port('port-lan'), [
    [
      'taken',
      { ...settings({ lan: { enabled: true } }), node: null },
      fakeSystem({}, listeners({ 7880: [nginx] })),
      'fail',
      /7880 for LAN access is taken by "nginx".*lan\.port/,
    ],
  ]);
  cases(port('port-mdns'), [
    [
      'shared',
      {},
      fakeSystem({}, listeners({ 5353: [{ name: 'avahi-daemon', pid: 9 }] })),
      'ok',
      /shared with "avahi-daemon" \(pid 9\)/,
    ],
    [
      'not shared',
      {
        node: runningNode({
          discovery: {
            interfaces: [
              {
                name: 'eth0',
                address: '192.0.2.10',
                virtual: false,
                working: false,
                problem: 'bind EADDRINUSE',
              },
            ],
            peers: 0,
          },
        }),
      },
      fakeSystem({}, listeners({ 5353: [{ name: 'greedy', pid: 9 }] })),
      'warn',
      /not shared by "greedy" \(pid 9\).*covey join/,
    ],
    ['off', settings({ discovery: { enabled: false } }), fakeSystem(), 'skipped', /discovery\.enabled/],
  ]);
  it('LAN access is not looked at while it is off', async () => {
    expect((await checkPorts(exampleContext(), fakeSystem())).map(({ id }) => id)).toEqual([
      'port-api',
      'port-cluster',
      'port-mdns',
    ]);
  });
});

describe('interfaces and multicast', () => {
  const docker = { ...ethernet, name: 'docker0', address: '172.17.0.1' };
  const cable = { ...ethernet, address: '169.254.3.4' };
  const on = (...addresses: readonly (typeof ethernet)[]) =>
    fakeSystem({}, { addresses: () => [...addresses] });
  cases(checkInterfaces, [
    ['one', {}, on(ethernet, docker), 'ok', /eth0 \(192\.0\.2\.10\) ->/],
    ['none', {}, on(), 'fail', /Plug in/],
    ['containers only', {}, on(docker), 'warn', /docker0/],
    ['a direct cable', {}, on(cable), 'warn', /self-assigned addresses.*direct cable/],
  ]);

  const echo = {
    name: 'eth0',
    address: '192.0.2.10',
    virtual: false,
    problem: null,
    heardSelf: true,
    heardOthers: 0,
  };
  const heard = (
    ...interfaces: readonly (typeof echo | (Omit<typeof echo, 'problem'> & { problem: string }))[]
  ) => fakeSystem({}, { multicast: async () => ({ bindProblem: null, interfaces }) });
  cases(checkMulticast, [
    ['others are heard', {}, fakeSystem(), 'ok', /2 other devices were heard/],
    ['alone', {}, heard(echo), 'ok', /no other device was heard/],
    [
      'dropped by a firewall',
      {},
      heard({ ...echo, heardSelf: false }),
      'warn',
      /not heard back on eth0.*5353.*ufw allow 5353\/udp.*covey join/,
    ],
    [
      'cannot be sent',
      {},
      heard({ ...echo, problem: 'EPERM' }),
      'warn',
      /cannot be sent on eth0 \(192\.0\.2\.10\), EPERM/,
    ],
    [
      'containers do not count beside a real adapter',
      {},
      heard(echo, { ...echo, name: 'docker0', virtual: true, heardSelf: false }),
      'ok',
      /works on eth0/,
    ],
    [
      'the port is held',
      {},
      fakeSystem({}, { multicast: async () => ({ bindProblem: 'EADDRINUSE', interfaces: [] }) }),
      'warn',
      /EADDRINUSE.*End the program/,
    ],
    ['no IPv4', {}, heard(), 'skipped', /No interface/],
    [
      'discovery has its own trouble',
      {
        node: runningNode({
          discovery: {
            interfaces: [
              {
                name: 'wlan0',
                address: '192.0.2.11',
                virtual: false,
                working: false,
                problem: 'it went away',
              },
            ],
            peers: 0,
          },
        }),
      },
      fakeSystem(),
      'warn',
      /wlan0 \(192\.0\.2\.11\): it went away/,
    ],
    ['off', settings({ discovery: { enabled: false } }), fakeSystem(), 'skipped', /by address/],
  ]);
});

describe('the way to the controller', () => {
  const away = (changes: object) => ({
    node: runningNode({
      controller: contact && { ...contact, connected: false, trouble: unreachable, ...changes },
    }),
  });
  cases(checkController, [
    ['connected', {}, fakeSystem(), 'ok', /Connected to hall at 192\.0\.2\.1:7879/],
    [
      'connected at a new address',
      { node: runningNode({ controller: contact && { ...contact, addressChangedAt: at - 60_000 } }) },
      fakeSystem(),
      'ok',
      /found again at a new address 60 s ago/,
    ],
    [
      'nothing answers',
      away({}),
      fakeSystem(),
      'fail',
      /192\.0\.2\.1:7879 refuses connections.*port 7879 in/,
    ],
    [
      'it answers and refuses',
      away({ trouble: { code: 'node_removed', message: 'This machine was removed.' } }),
      fakeSystem({}, { dial: async () => null }),
      'fail',
      /not connected although 192\.0\.2\.1:7879 answers: This machine was removed.* -> Run "covey join" here to join again$/,
    ],
    [
      'it does not know this machine any more',
      away({ trouble: { code: 'not_a_member', message: 'It is no member.' } }),
      fakeSystem({}, { dial: async () => null }),
      'fail',
      / -> Run "covey join" here to join again$/,
    ],
    [
      'it takes this machine for a copy',
      away({ trouble: { code: 'identity_in_use', message: 'Another one has it.' } }),
      fakeSystem({}, { dial: async () => null }),
      'fail',
      / -> On the machine that is the copy, .*covey identity new/,
    ],
    [
      'it refuses for another reason',
      away({ trouble: { code: 'controller_key_mismatch', message: 'Another key.' } }),
      fakeSystem({}, { dial: async () => null }),
      'fail',
      / -> Run "covey doctor" on hall and compare$/,
    ],
    ['no address', away({ addresses: [] }), fakeSystem(), 'fail', /No address answers/],
    ['not a member', { node: runningNode({ controller: null }) }, fakeSystem(), 'skipped', /covey join/],
    [
      'the controller itself',
      { node: runningNode({ role: 'controller' }) },
      fakeSystem(),
      'skipped',
      /is the contr/,
    ],
  ]);

  it('is tried from what the data directory remembers when no node runs', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'covey-doctor-'));
    try {
      await writeMembership(directory, {
        controllerId: 'a'.repeat(64) as NodeId,
        controllerName: 'hall',
        addresses: [{ host: '192.0.2.1', port: 7879 }],
      });
      const context = exampleContext({ dataDirectory: directory, node: null });
      const slow = fakeSystem({}, { dial: async () => 'ETIMEDOUT' });
      expect((await checkController(context, slow)).summary).toContain('192.0.2.1:7879 does not answer');
      const there = fakeSystem({}, { dial: async () => null });
      expect(await checkController(context, there)).toMatchObject({ status: 'ok' });
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('is not missed on the controller itself when that does not run', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'covey-doctor-'));
    try {
      const context = exampleContext({ dataDirectory: directory, node: null });
      expect((await checkController(context, fakeSystem())).summary).toContain('covey join');
      const access = await ensureLocalAccess(directory, 'controller');
      expect((await checkController(context, fakeSystem())).summary).toBe(
        'This machine is the controller, which does not run now',
      );
      const api = async (): Promise<string | undefined> =>
        (await checkPorts(context, fakeSystem())).find(({ id }) => id === 'port-api')?.summary;
      expect(await api()).toBe('Port 7878, the default for the API of this machine, is free.');
      // It was ended without a word.
      await access.publish('http://127.0.0.1:9123');
      expect(await api()).toBe('Port 9123 for the API of this machine is free.');
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('names the command that opens a port on each system', () => {
    expect(openPortText('linux', 7879)).toMatch(/ufw allow 7879\/tcp.*firewall-cmd.*7879\/tcp/);
    expect(openPortText('win32', 7879)).toContain('localport=7879');
    expect(openPortText('darwin', 7879)).toContain('Firewall');
    expect(openPortText('sunos', 7879)).toContain('TCP port 7879');
  });
});
