import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SettingsView } from '#shared/api/access.ts';
import type { ApiRoute } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { defaultSettings, type Settings } from '#shared/settings.ts';
import { scriptedIo } from '../../../e2e/support/cli-io.ts';
import {
  seemToRun,
  startScriptedApi,
  type RouteScript,
  type ScriptedApi,
} from '../../../e2e/support/scripted-api.ts';
import { at, exampleStatus } from '../../../e2e/support/views.ts';
import { readApiAccess } from '../../nodejs/access/local-access.ts';
import { newToken } from '../../nodejs/access/tokens.ts';
import { tokenFor } from '../context.ts';
import { runCli } from '../main.ts';

let directory: string;
let api: ScriptedApi | null = null;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-cli-'));
});
afterEach(async () => {
  await api?.close();
  api = null;
  rmSync(directory, { recursive: true });
});

async function covey(
  words: string,
  scripts: Partial<Record<ApiRoute, RouteScript>> = {},
  answers: readonly string[] = [],
) {
  await api?.close();
  api = await startScriptedApi(scripts);
  const io = scriptedIo({ answers });
  runsHere(readApiAccess(directory)?.role ?? 'controller', api.url);
  const code = await runCli(['--data', directory, ...words.split(' ')], io);
  const plain = (text: string): string =>
    text.replaceAll(api?.url ?? '', 'URL').replaceAll(directory, 'DATA');
  return { code, stdout: plain(io.stdout()), stderr: plain(io.stderr()), requests: api.requests };
}

/** What a role leaves in its data directory. */
function runsHere(role: 'controller' | 'worker', apiAddress: string | null = null): string {
  const token = readApiAccess(directory)?.token ?? newToken('local');
  seemToRun(directory, { token, apiAddress, role });
  return token;
}

describe('the token', () => {
  it("of a controller is good for all, a worker's for that machine, and a login for the rest", () => {
    const session = { token: 'session', expiresAt: at };
    const own = (role: 'controller' | 'worker') => ({ token: 'own', apiAddress: null, role });
    const pick = (url: string, ...held: [Parameters<typeof tokenFor>[1], Parameters<typeof tokenFor>[2]]) =>
      (['local', 'admin'] as const).map((access) => tokenFor(url, ...held)(access));
    const here = 'http://127.0.0.1:7878';
    expect(pick(here, own('controller'), session)).toEqual(['own', 'own']);
    expect(pick(here, own('worker'), session)).toEqual(['own', 'session']);
    expect(pick(here, own('worker'), null)).toEqual(['own', 'own']);
    expect(pick(here, null, session)).toEqual(['session', 'session']);
    expect(pick(here, null, null)).toEqual([null, null]);
    for (const elsewhere of [
      'http://desk:7878',
      'http://192.168.1.5:7878',
      'http://localhost.evil.example',
    ]) {
      expect(pick(elsewhere, own('controller'), session)).toEqual([null, null]);
    }
  });

  it('goes along, and the address comes from the same file', async () => {
    const token = runsHere('controller');
    const { requests } = await covey('status', { status: () => exampleStatus });
    expect(requests[0]?.headers.authorization).toBe(`Bearer ${token}`);
    runsHere('controller', api?.url ?? null);
    const io = scriptedIo({ env: { COVEY_DATA: directory } });
    expect(await runCli(['status'], io)).toBe(0);
    expect(api?.requests).toHaveLength(2);
  });

  it('of a node that is gone goes nowhere: somebody else may be at its address', async () => {
    api = await startScriptedApi({ status: () => exampleStatus });
    runsHere('controller', api.url);
    const ended = spawnSync(process.execPath, ['--version']).pid;
    writeFileSync(join(directory, 'lock'), JSON.stringify({ pid: ended, startedAt: 'x' }));
    expect(await runCli(['status', '--data', directory], scriptedIo())).toBe(3);
    expect(api.requests).toEqual([]);
  });

  it('that is missing or not enough: what to do', async () => {
    const refuse = (code: 'token_missing' | 'admin_required') => () => {
      throw new CoveyError(code, 'No.');
    };
    expect((await covey('status', { status: refuse('token_missing') })).stderr).toMatch(
      /--data DIR.*covey login/s,
    );
    expect((await covey('status', { status: refuse('admin_required') })).stderr).toMatch(
      /covey open.*covey login/s,
    );
  });
});

describe('logging in', () => {
  const session = { token: newToken('session'), role: 'admin', expiresAt: at + 3_600_000 };

  it('keeps the login for the next command, where only its owner reads it', async () => {
    runsHere('worker');
    const { stdout, requests } = await covey('login', { redeem: () => session }, ['ABCD-EFGH']);
    expect(stdout).toBe('Logged in for 60 min.\n');
    expect(requests[0]).toMatchObject({ body: { code: 'ABCD-EFGH' } });
    expect(requests[0]?.headers.authorization).toBeUndefined();
    const file = join(directory, 'api-session.json');
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      token: session.token,
      expiresAt: session.expiresAt,
    });
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600);
    const next = await covey('status', { status: () => exampleStatus });
    expect(next.requests[0]?.headers.authorization).toBe(`Bearer ${session.token}`);
    const out = await covey('logout', { logout: () => ({}) });
    expect(out.stdout).toBe('Logged out.\n');
    expect(out.requests[0]?.headers.authorization).toBe(`Bearer ${session.token}`);
    expect((await covey('logout')).stdout).toBe('Nobody is logged in here.\n');
  });

  it('takes the whole link, and never prints the token', async () => {
    const link = 'http://127.0.0.1:7878/#code=ABCD-EFGH';
    const { stdout, stderr, requests } = await covey('--json login', { redeem: () => session }, [link]);
    expect(requests[0]?.body).toEqual({ code: 'ABCD-EFGH' });
    expect(stdout + stderr).not.toContain(session.token);
  });

  it('without a code is a wrong use', async () => {
    expect((await covey('login')).code).toBe(2);
  });

  it('is forgotten here even when the controller is away', async () => {
    writeFileSync(join(directory, 'api-session.json'), JSON.stringify(session));
    const away = () => {
      throw new CoveyError('controller_unreachable', 'No answer.');
    };
    const { code, stderr } = await covey('logout', { logout: away });
    expect([code, stderr]).toEqual([0, expect.stringContaining('could not be told')]);
    expect((await covey('logout')).stdout).toBe('Nobody is logged in here.\n');
  });

  it('by a link under the address that works here', async () => {
    const loginCode = () => ({
      code: 'ABCD-EFGH',
      url: 'http://else/#code=ABCD-EFGH',
      expiresAt: at + 60_000,
    });
    const { stdout, stderr } = await covey('open', { loginCode });
    expect(stdout).toBe('URL/#code=ABCD-EFGH\n');
    expect(stderr).toContain('It works once, for 60 s.');
    // A worker without a login opens what is its own, unless the dashboard was asked for.
    const refused = () => {
      throw new CoveyError('admin_required', 'This needs a login.');
    };
    const own = await covey('open', { loginCode: refused, machineCode: loginCode });
    expect([own.stdout, own.stderr]).toEqual([
      'URL/machine#code=ABCD-EFGH\n',
      expect.stringMatching(/^The page of this machine itself/),
    ]);
    expect((await covey('open machine', { machineCode: loginCode })).stdout).toContain('/machine#code=');
    expect((await covey('open dashboard', { loginCode: refused })).code).toBe(1);
    expect((await covey('open sesame')).code).toBe(2);
  });
});

describe('keys', () => {
  const key = {
    id: 'k-1',
    name: 'apps',
    scope: 'inference',
    createdAt: at - 3_600_000,
    lastUsedAt: null,
  } as const;

  it('are listed, made and revoked', async () => {
    const admin = { ...key, id: 'k-2', name: 'me', scope: 'admin', lastUsedAt: at - 60_000 } as const;
    expect((await covey('keys', { keys: () => ({ keys: [key, admin] }) })).stdout).toMatchInlineSnapshot(`
      "NAME  MAY          MADE        LAST USED  ID
      apps  call models  60 min ago  never      k-1
      me    everything   60 min ago  60 s ago   k-2
      "
    `);
    const made = await covey('keys create apps', { createKey: () => ({ ...key, key: 'covey_key_x' }) });
    expect(made.stdout).toBe('covey_key_x\n');
    expect(made.requests[0]?.body).toEqual({ name: 'apps', scope: 'inference' });
    const more = await covey('keys create me --admin', { createKey: () => ({ ...admin, key: 'x' }) });
    expect(more.requests[0]?.body).toEqual({ name: 'me', scope: 'admin' });
    const gone = await covey('keys revoke apps', { keys: () => ({ keys: [key] }), revokeKey: () => ({}) });
    expect(gone.requests[1]?.params).toEqual({ id: 'k-1' });
    expect(gone.stdout).toBe('The key apps is revoked.\n');
  });
});

describe('settings', () => {
  const view = (settings: Settings = defaultSettings, more: Partial<SettingsView> = {}): SettingsView => ({
    settings,
    file: '/data/config.json',
    lanAddresses: [],
    lanCertificate: null,
    problems: [],
    ...more,
  });

  it('are shown, one or all', async () => {
    const settings = () => view({ ...defaultSettings, api: { requireKey: false, allowedHosts: ['a', 'b'] } });
    expect((await covey('config', { settings })).stdout).toMatchInlineSnapshot(`
      "discovery.enabled:           true
      api.requireKey:              false
      api.allowedHosts:            a, b
      lend.enabled:                true
      lend.limits.cpuThreads:      none
      lend.limits.ramBytes:        none
      lend.limits.diskBytes:       none
      lend.limits.uploadBytesPerS: none
      lend.schedule:               none
      lend.idleMinutes:            none
      lend.giveWay.onBattery:      true
      lend.giveWay.programs:       none
      lend.giveWay.fullScreen:     false
      lend.giveWay.hotCelsius:     none
      lend.kinds.inference:        true
      lend.kinds.kernels:          true
      lend.kinds.commands:         false
      lend.network:                none
      artifacts.quotaBytes:        none
      app.openAtLogin:             false
      app.updates.automatic:       true
      app.updates.channel:         stable
      lan.enabled:                 false
      lan.port:                    7880
      lan.certificateFile:         none
      lan.keyFile:                 none
      kept in:                     /data/config.json
      "
    `);
    expect((await covey('config get lan.port', { settings })).stdout).toBe('7880\n');
    expect((await covey('--json config get api', { settings })).stdout).toBe(
      '{"requireKey":false,"allowedHosts":["a","b"]}\n',
    );
    const wrong = await covey('config get lan.prot', { settings });
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('Did you mean lan.port?')]);
  });

  it.each([
    ['set lan.port 8443', { lan: { port: 8443 } }],
    ['set lan.enabled on', { lan: { enabled: true } }],
    ['set api.requireKey false', { api: { requireKey: false } }],
    ['set api.allowedHosts a.example,b.example', { api: { allowedHosts: ['a.example', 'b.example'] } }],
    ['set lan.keyFile /k.pem', { lan: { keyFile: '/k.pem' } }],
    ['set artifacts.quotaBytes 50GB', { artifacts: { quotaBytes: 50 * 2 ** 30 } }],
    ['set artifacts.quotaBytes none', { artifacts: { quotaBytes: null } }],
    ['unset lan.port', { lan: { port: null } }],
    ['set colour red', { colour: 'red' }],
  ])('%s sends %j', async (words, body) => {
    const { requests } = await covey(`config ${words}`, { setSettings: () => view() });
    expect(requests[0]?.body).toEqual(body);
  });

  it('of a size answer in the unit that people write', async () => {
    const settings = { ...defaultSettings, artifacts: { quotaBytes: 300 * 2 ** 20 } };
    const set = await covey('config set artifacts.quotaBytes 300MB', { setSettings: () => view(settings) });
    expect([set.stdout, set.requests[0]?.body]).toEqual([
      'artifacts.quotaBytes is 300 MiB now.\n',
      { artifacts: { quotaBytes: 300 * 2 ** 20 } },
    ]);
    await api?.close();
    const get = await covey('config get artifacts.quotaBytes', { settings: () => view(settings) });
    expect(get.stdout).toBe('300 MiB\n');
    await api?.close();
    const json = await covey('--json config get artifacts.quotaBytes', { settings: () => view(settings) });
    expect(json.stdout).toBe('314572800\n');
  });

  it('of the wrong kind ask nobody', async () => {
    for (const words of [
      'set lan.port many',
      'set lan.enabled maybe',
      'set artifacts.quotaBytes 99999999TB',
    ]) {
      const { code, requests } = await covey(`config ${words}`);
      expect([code, requests]).toEqual([2, []]);
    }
  });

  it('for the LAN say where, and what keeps them from working', async () => {
    const { code, stdout, stderr } = await covey('config set lan.enabled on', {
      setSettings: () =>
        view(
          { ...defaultSettings, lan: { ...defaultSettings.lan, enabled: true } },
          {
            lanAddresses: ['https://192.168.1.5:7880'],
            lanCertificate: { fingerprint: 'f', caFingerprint: 'c'.repeat(64), expiresAt: at },
            problems: ['The disk is full.'],
          },
        ),
    });
    expect(code).toBe(1);
    expect(stdout).toBe('lan.enabled is true now.\n');
    expect(stderr).toContain('https://192.168.1.5:7880');
    expect(stderr).toContain('/data/lan/ca.pem');
    expect(stderr).toContain('warning: The disk is full.');
  });

  it('that are not for the LAN do not fail by its problems', async () => {
    const setSettings = () => view(defaultSettings, { problems: ['Port 7880 is taken.'] });
    expect((await covey('config set api.requireKey on', { setSettings })).code).toBe(0);
    await api?.close();
    expect((await covey('config unset lan.port --json', { setSettings })).code).toBe(1);
  });
});
