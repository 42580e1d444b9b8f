import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { get as httpsGet } from 'node:https';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { apiRoutes } from '#shared/api/schema.ts';
import { selfRoutes } from '#shared/api/self.ts';
import { CoveyError } from '#shared/errors.ts';
import { scriptedSelf } from '../../nodejs/access/fixtures.ts';
import {
  answer,
  jsonCaller,
  postText,
  parseAnswer,
  rawClient,
  rawExchange,
  recordingLogger,
  startUpstream,
  type ScriptedUpstream,
} from '../../nodejs/http/fixtures.ts';
import { coveyShape } from '../../nodejs/http/respond.ts';
import { openSettings } from '../../nodejs/settings/settings-store.ts';
import { scriptedAccess, type ScriptedAccess } from '../access/fixtures.ts';
import { apiKey, scriptedRoutes, type ScriptedRoutes } from './fixtures.ts';
import { createGateway, type Gateway, type GatewayOptions } from './gateway.ts';
import type { ControllerService } from './ports.ts';

let directory: string;
let upstream: ScriptedUpstream;
let routes: ScriptedRoutes;
let options: GatewayOptions;
let gateway: Gateway;
let scripted: ScriptedAccess;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-gateway-'));
  upstream = await startUpstream(({ socket }) => socket.end(answer(200, '{"ok":true}')));
  routes = scriptedRoutes();
  routes.serve('tiny', { kind: 'local', port: upstream.port, apiKey });
  scripted = scriptedAccess();
  const name = join(directory, 'gateway.sock');
  options = {
    listen: { host: '127.0.0.1', port: 0 },
    memberSocketPath: process.platform === 'win32' ? `\\\\.\\pipe\\${name.replaceAll('\\', '-')}` : name,
    dataDirectory: directory,
    routes,
    service: {
      status: () => ({ did: 'status' }),
      subscribe: () => () => undefined,
    } as unknown as ControllerService,
    access: scripted.access,
    settings: await openSettings(directory),
    self: scriptedSelf('controller'),
    joining: { prefix: '/api', errorShape: coveyShape, routes: [] },
    artifacts: { prefix: '/api', errorShape: coveyShape, routes: [] },
    jobs: { prefix: '/api', errorShape: coveyShape, routes: [] },
    links: { list: () => [] },
    note: () => undefined,
    clock: { now: Date.now },
    dialUpstream: () => Promise.reject(new Error('there is no remote engine')),
    logger: recordingLogger(),
  };
  gateway = await createGateway(options);
});
afterEach(async () => {
  await gateway.close();
  await upstream.close();
  scripted.close();
  await rm(directory, { recursive: true });
});

const ownPaths = Object.values(selfRoutes)
  .filter(({ method, access }) => method === 'GET' && access === 'local')
  .map(({ path }) => path);
const joiningPaths = /^\/api\/(invites|pending|blocked|cluster-secret|jobs|tasks|artifacts)/;

const bearer = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

const call = jsonCaller(() => gateway.apiAddress);

async function askAsMember(path: string, token?: string): Promise<ReturnType<typeof parseAnswer>> {
  const line = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  const text = `GET ${path} HTTP/1.1\r\nHost: gateway\r\n${line}Connection: close\r\n\r\n`;
  return parseAnswer(await rawExchange(options.memberSocketPath, text));
}

const ask = (extra: readonly string[] = []): string =>
  postText(1, '/v1/completions', { model: 'tiny' }, extra).replace('Host: 127.0.0.1:1', 'Host: gateway');

describe('on this machine', () => {
  it('tells its health', async () => {
    routes.refuse('big', new CoveyError('not_ready', 'loading'));
    const response = await fetch(`${gateway.apiAddress}/healthz`);
    expect([response.status, await response.json()]).toEqual([
      200,
      { status: 'ok', role: 'controller', models: { total: 2, ready: 1 } },
    ]);
  });

  it('serves /v1 and /api', async () => {
    const models = await fetch(`${gateway.apiAddress}/v1/models`);
    expect(await models.json()).toMatchObject({ data: [{ id: 'tiny' }] });
    const status = await fetch(`${gateway.apiAddress}/api/status`, bearer(scripted.local.token));
    expect(await status.json()).toEqual({ did: 'status' });
  });

  it('tells nothing without a token, whatever the route, and never sets a cookie or allows another origin', async () => {
    for (const { method, path, access } of Object.values(apiRoutes)) {
      const response = await fetch(gateway.apiAddress + path.replace(/:\w+/, 'x'), { method });
      if (joiningPaths.test(path)) continue; // Its routes are another module's.
      expect([method, path, response.status]).toEqual([method, path, access === 'public' ? 400 : 401]);
      if (access !== 'public') expect(response.headers.get('www-authenticate')).toBe('Bearer');
      expect(response.headers.get('set-cookie')).toBeNull();
      expect([...response.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });

  it('turns a one-time link into a login, once', async () => {
    const made = await call('POST', '/api/login-codes', scripted.local.token);
    const { url, code } = made.json as { url: string; code: string };
    expect(url).toBe(`${gateway.apiAddress}/#code=${code}`);
    const login = await call('POST', '/api/sessions', undefined, { code });
    const { token } = login.json as { token: string };
    expect((await call('GET', '/api/status', token)).status).toBe(200);
    expect(await call('POST', '/api/sessions', undefined, { code })).toMatchObject({
      status: 403,
      json: { error: { code: 'login_code_invalid' } },
    });
    expect((await call('DELETE', '/api/sessions/current', token)).status).toBe(200);
    expect((await call('GET', '/api/status', token)).status).toBe(401);
  });

  it('makes, lists and revokes keys', async () => {
    const { token } = scripted.local;
    const made = await call('POST', '/api/keys', token, { name: 'apps' });
    const { id, key } = made.json as { id: string; key: string };
    expect([made.status, made.json]).toMatchObject([201, { name: 'apps', scope: 'inference' }]);
    expect(await call('GET', '/api/status', key)).toMatchObject({
      status: 403,
      json: { error: { code: 'admin_required' } },
    });
    expect((await call('GET', '/api/keys', token)).json).toMatchObject({ keys: [{ id, name: 'apps' }] });
    expect((await call('DELETE', `/api/keys/${id}`, token)).status).toBe(200);
    expect((await call('GET', '/api/keys', token)).json).toEqual({ keys: [] });
    expect(await call('POST', '/api/keys', token, { name: 'a\u0007b' })).toMatchObject({
      status: 400,
      json: { error: { field: 'name' } },
    });
  });

  it('answers under a name that the setting allows, also behind a proxy', async () => {
    const ask = (host: string): Promise<string> =>
      rawExchange(
        Number(new URL(gateway.apiAddress).port),
        `GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nOrigin: https://${host}\r\nConnection: close\r\n\r\n`,
      );
    const refused = parseAnswer(await ask('covey.example'));
    expect(refused.status).toBe(403);
    expect(refused.body).toContain('api.allowedHosts');
    await options.settings.patch({ api: { allowedHosts: ['covey.example'] } });
    expect(parseAnswer(await ask('covey.example')).status).toBe(200);
    expect(parseAnswer(await ask('covey.example:8443')).status).toBe(200);
    expect(parseAnswer(await ask('other.example')).status).toBe(403);
  });

  it('wants a key for /v1 as soon as that is set', async () => {
    const { key } = scripted.access.createKey('apps', 'inference');
    scripted.settings = { ...scripted.settings, api: { requireKey: true, allowedHosts: [] } };
    const without = await fetch(`${gateway.apiAddress}/v1/models`);
    expect([without.status, await without.json()]).toMatchObject([
      401,
      { error: { code: 'key_missing', type: 'authentication_error', param: null } },
    ]);
    expect((await fetch(`${gateway.apiAddress}/v1/models`, bearer(key))).status).toBe(200);
  });

  it('ends what a login has open when it ends', async () => {
    const { code } = scripted.access.loginCode();
    const login = await call('POST', '/api/sessions', undefined, { code });
    const { token } = login.json as { token: string };
    const client = await rawClient(Number(new URL(gateway.apiAddress).port));
    const { host } = new URL(gateway.apiAddress);
    client.send(`GET /api/events HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    await client.until(': covey events');
    await call('DELETE', '/api/sessions/current', token);
    await client.until('0\r\n\r\n');
    client.close();
  });
});

describe('for members', () => {
  it('serves /v1 whatever the Host, and requests on one connection after the other', async () => {
    const client = await rawClient(options.memberSocketPath);
    client.send(ask());
    await client.until(/\{"ok":true\}$/);
    client.send(ask(['Connection: close']));
    expect((await client.ended()).split('{"ok":true}')).toHaveLength(3);
    expect(upstream.requests).toHaveLength(2);
  });

  it.each(['/healthz', '/', ...ownPaths])('has nothing at %s', async (path) => {
    expect((await askAsMember(path, scripted.local.token)).status).toBe(404);
  });

  it('serves /api to who shows a login or an admin key, and not to the member itself', async () => {
    expect((await askAsMember('/api/status')).status).toBe(401);
    expect((await askAsMember('/api/status', scripted.local.token)).status).toBe(401);
    const { key } = scripted.access.createKey('apps', 'inference');
    expect((await askAsMember('/api/status', key)).status).toBe(403);
    const { key: admin } = scripted.access.createKey('admin', 'admin');
    expect(await askAsMember('/api/status', admin)).toMatchObject({ status: 200, body: '{"did":"status"}' });
  });
});

it('takes back the socket of a controller that was killed, not that of one that runs', async () => {
  await expect(createGateway(options)).rejects.toMatchObject({ code: 'port_in_use' });
  expect((await fetch(`${gateway.apiAddress}/healthz`)).status).toBe(200);
  await gateway.close();
  if (process.platform !== 'win32') await expect(stat(options.memberSocketPath)).rejects.toThrow('ENOENT');
  gateway = await createGateway(options);
  expect(parseAnswer(await rawExchange(options.memberSocketPath, ask(['Connection: close']))).status).toBe(
    200,
  );
});

describe('on the LAN', () => {
  it('serves /v1 and /api by https with a key, nothing without, and goes off again', async () => {
    const { key } = scripted.access.createKey('apps', 'inference');
    const { key: admin } = scripted.access.createKey('admin', 'admin');
    const port = await freePort();
    await options.settings.patch({ lan: { enabled: true, port } });
    await gateway.lan.settled();
    expect(gateway.lan.problems).toEqual([]);
    const ca = await readFile(join(directory, 'lan', 'ca.pem'), 'utf8');
    const get = (path: string, token?: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
        const request = httpsGet({ host: '127.0.0.1', port, path, ca, headers, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        });
        request.on('error', reject);
      });
    expect(await get('/v1/models')).toBe(401);
    expect(await get('/healthz')).toBe(401);
    expect(await get('/v1/models', key)).toBe(200);
    expect(await get('/api/status', key)).toBe(403);
    expect(await get('/api/status', admin)).toBe(200);
    expect(await get('/api/self', admin)).toBe(200);
    for (const path of ['/v1/models', '/api/status', '/api/self']) {
      expect(await get(path, scripted.local.token)).toBe(401);
    }
    await options.settings.patch({ lan: { enabled: false } });
    await gateway.lan.settled();
    await expect(get('/v1/models', key)).rejects.toThrow('ECONNREFUSED');
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '0.0.0.0');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
