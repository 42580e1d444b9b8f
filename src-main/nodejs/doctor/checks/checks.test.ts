import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { settingsSchema } from '#shared/settings.ts';
import { writeMembership } from '../../membership.ts';
import type { Finding } from '../check.ts';
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
import { checkClock, skewFinding, spanText } from './clock.ts';
import { checkDataDirectory } from './data-directory.ts';
import { checkDisk } from './disk.ts';
import { checkFirewall } from './firewall.ts';
import { checkIdentity } from './identity.ts';
import { checkLan } from './lan.ts';
import { checkInterfaces, checkMulticast } from './multicast.ts';
import { checkNames } from './names.ts';
import { checkPorts } from './ports.ts';
import { checkEngine, checkProgram, checkSettings } from './program.ts';
import { checkController, openPortText } from './reach.ts';

type Case = readonly [
  name: string,
  context: Partial<DoctorContext>,
  system: DoctorSystem,
  status: Finding['status'],
  text: RegExp,
];

/** Runs a check for each case and looks at status, and at summary and action together. */
function cases(
  check: (context: DoctorContext, system: DoctorSystem) => Promise<Finding> | Finding,
  all: readonly Case[],
): void {
  it.each(all)('%s', async (_name, context, system, status, text) => {
    const found = await check(exampleContext(context), system);
    expect([found.status, `${found.summary} -> ${found.action ?? ''}`]).toEqual([
      status,
      expect.stringMatching(text),
    ]);
  });
}

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
    ['free', { node: null }, fakeSystem(), 'ok', /7879 for the other machines is free/],
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
      /not connected although 192\.0\.2\.1:7879 answers: This machine was removed/,
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

  it('names the command that opens a port on each system', () => {
    expect(openPortText('linux', 7879)).toMatch(/ufw allow 7879\/tcp.*firewall-cmd.*7879\/tcp/);
    expect(openPortText('win32', 7879)).toContain('localport=7879');
    expect(openPortText('darwin', 7879)).toContain('Firewall');
    expect(openPortText('sunos', 7879)).toContain('TCP port 7879');
  });
});

describe('firewall', () => {
  const ufw = (status: string | { readonly code: number; readonly stdout: string }) =>
    fakeSystem({ texts: { '/etc/ufw/ufw.conf': '# x\nENABLED=yes\n' }, commands: { ufw: status } });
  const firewalld = (answer: string) =>
    fakeSystem({
      commands: { 'firewall-cmd --state': 'running\n', 'firewall-cmd --query-port=7879/tcp': answer },
    });
  const mac = (commands: Record<string, string>) => fakeSystem({ commands }, { platform: 'darwin' });
  const tool = '/usr/libexec/ApplicationFirewall/socketfilterfw';
  const windows = (rule: number | null) =>
    fakeSystem(
      { commands: rule === null ? {} : { netsh: { code: rule, stdout: '' } } },
      { platform: 'win32' },
    );
  cases(checkFirewall, [
    ['none', {}, fakeSystem(), 'ok', /Neither ufw nor firewalld/],
    [
      'ufw without a rule',
      {},
      ufw('Status: active\n22/tcp ALLOW Anywhere\n'),
      'warn',
      /ufw.*sudo ufw allow 7879\/tcp/,
    ],
    [
      'ufw with one',
      {},
      ufw('Status: active\n7879/tcp   ALLOW   192.0.2.0/24\n'),
      'ok',
      /lets TCP port 7879 in/,
    ],
    ['ufw with a range', {}, ufw('Status: active\n7000:8000/tcp ALLOW Anywhere\n'), 'ok', /lets/],
    ['ufw that we may not ask', {}, ufw({ code: 1, stdout: '' }), 'ok', /ufw is on/],
    ['firewalld without', {}, firewalld('no\n'), 'warn', /firewalld.*add-port=7879\/tcp/],
    ['firewalld with', {}, firewalld('yes\n'), 'ok', /firewalld lets/],
    ['macOS, off', {}, mac({ [tool]: 'Firewall is disabled. (State = 0)' }), 'ok', /off/],
    [
      'macOS, all blocked',
      {},
      mac({
        [`${tool} --getglobalstate`]: 'enabled. (State = 2)',
        [`${tool} --getblockall`]: 'Block all ENABLED! (State = 2)',
      }),
      'warn',
      /Block all/,
    ],
    ['Windows without', {}, windows(1), 'ok', /no rule "Covey"/],
    ['Windows with', {}, windows(0), 'ok', /rule "Covey"/],
    ['Windows that does not tell', {}, windows(null), 'skipped', /cannot be asked/],
    ['nothing to let in', { node: runningNode({ clusterAddress: null }) }, fakeSystem(), 'skipped', /closed/],
    ['another system', {}, fakeSystem({}, { platform: 'sunos' }), 'skipped', /sunos/],
  ]);
});

describe('names', () => {
  cases(checkNames, [
    ['right', {}, fakeSystem(), 'ok', /"localhost" and "desk"/],
    [
      'localhost elsewhere',
      {},
      fakeSystem({ names: { localhost: ['192.0.2.9'] } }),
      'fail',
      /192\.0\.2\.9.*127\.0\.0\.1 localhost/,
    ],
    [
      'unknown to itself',
      {},
      fakeSystem({}, { hostname: () => 'attic' }),
      'warn',
      /"attic" does not resolve \(ENOTFOUND\)/,
    ],
    [
      'somebody else',
      {},
      fakeSystem({ names: { desk: ['192.0.2.99'] } }),
      'warn',
      /192\.0\.2\.99, which is no address/,
    ],
    ['loopback is fine', {}, fakeSystem({ names: { desk: ['127.0.1.1'] } }), 'ok', /lead to this machine/],
    [
      'the controller by a name that is gone',
      {
        node: runningNode({
          controller: contact && { ...contact, addresses: [{ host: 'hall.lan', port: 1 }] },
        }),
      },
      fakeSystem(),
      'warn',
      /"hall\.lan" does not resolve/,
    ],
  ]);
});

describe('data directory', () => {
  const key = join(dataDirectory, 'identity', 'key.pem');
  const listed = { [join(dataDirectory, 'identity')]: ['key.pem'], [dataDirectory]: ['config.json'] };
  const withFiles = (files: Record<string, object>) => fakeSystem({ lists: listed, files });
  cases(checkDataDirectory, [
    ['closed', {}, withFiles({}), 'ok', /mode 700, files 600/],
    [
      'open with the key',
      {},
      withFiles({ [dataDirectory]: { kind: 'directory', mode: 0o755 }, [key]: { mode: 0o644 } }),
      'fail',
      /key\.pem \(mode 644\).*chmod -R go=/,
    ],
    [
      'closed, but the key is open',
      {},
      withFiles({ [key]: { mode: 0o640 } }),
      'warn',
      /key\.pem \(mode 640\)/,
    ],
    [
      'open without secrets',
      {},
      withFiles({ [dataDirectory]: { kind: 'directory', mode: 0o755 } }),
      'warn',
      /mode 755/,
    ],
    ["another user's", {}, withFiles({ [key]: { uid: 0 } }), 'fail', /another user \(number 0\).*chown/],
    ['a file', {}, withFiles({ [dataDirectory]: { kind: 'file' } }), 'fail', /not a directory/],
    ['gone', { dataDirectory: '/gone' }, fakeSystem(), 'fail', /removed while this node runs/],
    ['never there', { dataDirectory: '/gone', node: null }, fakeSystem(), 'skipped', /no node ran here/],
    ['Windows', {}, fakeSystem({}, { platform: 'win32' }), 'skipped', /Windows/],
    [
      'not to be looked at',
      {},
      fakeSystem({}, { look: async () => Promise.reject(Object.assign(new Error(), { code: 'EACCES' })) }),
      'fail',
      /may not be read/,
    ],
  ]);
});

describe('disk', () => {
  const space = (freeBytes: number, problem: string | null = null, freeFiles: number | null = null) =>
    fakeSystem({}, { space: async () => ({ freeBytes, freeFiles }), tryWriting: async () => problem });
  const gib = 1024 ** 3;
  cases(checkDisk, [
    ['room', {}, space(80 * gib), 'ok', /80\.0 GiB are free/],
    ['little', {}, space(gib), 'warn', /1\.0 GiB.*few models fit/],
    ['almost none', {}, space(1024 ** 2), 'fail', /1\.0 MiB.*nothing new is recorded/],
    ['full', {}, space(0, 'ENOSPC'), 'fail', /is full: 0 B are free.*--data DIR/],
    ['over quota', {}, space(gib, 'EDQUOT'), 'fail', /quota/],
    ['read-only', {}, space(gib, 'EROFS'), 'fail', /read-only/],
    ['forbidden', {}, space(gib, 'EACCES'), 'fail', /EACCES/],
    ['no files left', {}, space(80 * gib, null, 0), 'fail', /0 more files/],
    ['not there', { dataDirectory: '/gone' }, fakeSystem(), 'skipped', /no data directory/],
  ]);
});

describe('identity', () => {
  const notice = (code: 'identity_in_use' | 'controllers_ambiguous', message: string) => ({
    node: runningNode({ notices: [{ code, message }] }),
  });
  cases(checkIdentity, [
    ['fine', {}, fakeSystem(), 'ok', /in place/],
    [
      'copied',
      notice('identity_in_use', 'attic (192.0.2.9) has it too. Sorry.'),
      fakeSystem(),
      'fail',
      /attic \(192\.0\.2\.9\) has it too.*covey identity new/,
    ],
    [
      'told something',
      notice('controllers_ambiguous', 'Two controllers answer.'),
      fakeSystem(),
      'warn',
      /Two controllers answer/,
    ],
    [
      'half a key',
      {},
      fakeSystem(
        { files: { [join(dataDirectory, 'identity', 'key.pem')]: { kind: 'file' } } },
        {
          look: async (path) =>
            path.endsWith('key.pem') ? { path, kind: 'file', mode: 0o600, uid: 1, modifiedAt: 1 } : null,
        },
      ),
      'fail',
      /cert\.pem is missing/,
    ],
    ['none yet', { dataDirectory: '/gone', node: null }, fakeSystem(), 'skipped', /no key/],
    ['removed under a node', { dataDirectory: '/gone' }, fakeSystem(), 'fail', /was removed.*restore/],
  ]);
});

describe('LAN access', () => {
  const on = settings({ lan: { enabled: true } });
  const own = settings({ lan: { enabled: true, certificateFile: '/c.pem', keyFile: '/k.pem' } });
  const lan = (
    certificateExpiresAt: number | null,
    problems: string[] = [],
    addresses = ['https://desk:7880'],
  ) => ({
    node: runningNode({ lan: { addresses, certificateExpiresAt, problems } }),
  });
  cases(checkLan, [
    ['off', {}, fakeSystem(), 'skipped', /off/],
    ['good', { ...on, ...lan(at + 60 * day) }, fakeSystem(), 'ok', /https:\/\/desk:7880.*60 days/],
    [
      'about to expire',
      { ...on, ...lan(at + 3 * day, ['The disk is full.']) },
      fakeSystem(),
      'warn',
      /expires in 3 days and was not renewed \(The disk is full\)/,
    ],
    ['expired', { ...own, ...lan(at - day) }, fakeSystem(), 'fail', /expired 1 day ago.*\/c\.pem/],
    [
      'nothing is served',
      { ...on, ...lan(null, ['Port 7880 is in use by "x" (pid 1).'], []) },
      fakeSystem(),
      'fail',
      /nothing is served: Port 7880 is in use/,
    ],
    ['on without a node', { ...on, node: null }, fakeSystem(), 'skipped', /no node runs/],
    [
      'a problem besides',
      { ...on, ...lan(at + 60 * day, ['It could not be renewed.']) },
      fakeSystem(),
      'warn',
      /It could not be renewed/,
    ],
  ]);
});
