import { join } from 'node:path';
import { describe } from 'vitest';
import { settingsSchema } from '#shared/settings.ts';
import { at, dataDirectory, fakeSystem, runningNode } from '../fixtures.ts';
import { cases } from './cases.ts';
import { checkDataDirectory } from './data-directory.ts';
import { checkDisk } from './disk.ts';
import { checkFirewall } from './firewall.ts';
import { checkIdentity } from './identity.ts';
import { checkLan } from './lan.ts';
import { checkNames } from './names.ts';

const day = 86_400_000;
const contact = runningNode().controller;

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
      'copied, and refused for it',
      {
        node: runningNode({
          controller: {
            name: 'hall',
            connected: false,
            addresses: [],
            trouble: { code: 'identity_in_use', message: 'attic (192.0.2.9) has it too.' },
            clockAheadMs: null,
            addressChangedAt: null,
          },
        }),
      },
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
  const settings = (input: unknown) => ({ settings: settingsSchema.parse(input) });
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
