import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import {
  answer,
  postText,
  parseAnswer,
  rawClient,
  rawExchange,
  recordingLogger,
  startUpstream,
  type ScriptedUpstream,
} from '../../nodejs/http/fixtures.ts';
import { apiKey, scriptedRoutes, type ScriptedRoutes } from './fixtures.ts';
import { createGateway, type Gateway, type GatewayOptions } from './gateway.ts';
import type { ControllerService } from './ports.ts';

let directory: string;
let upstream: ScriptedUpstream;
let routes: ScriptedRoutes;
let options: GatewayOptions;
let gateway: Gateway;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-gateway-'));
  upstream = await startUpstream(({ socket }) => socket.end(answer(200, '{"ok":true}')));
  routes = scriptedRoutes();
  routes.serve('tiny', { kind: 'local', port: upstream.port, apiKey });
  const name = join(directory, 'gateway.sock');
  options = {
    listen: { host: '127.0.0.1', port: 0 },
    memberSocketPath: process.platform === 'win32' ? `\\\\.\\pipe\\${name.replaceAll('\\', '-')}` : name,
    routes,
    service: { status: () => ({ did: 'status' }) } as unknown as ControllerService,
    dialUpstream: () => Promise.reject(new Error('there is no remote engine')),
    logger: recordingLogger(),
  };
  gateway = await createGateway(options);
});
afterEach(async () => {
  await gateway.close();
  await upstream.close();
  await rm(directory, { recursive: true });
});

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
    const status = await fetch(`${gateway.apiAddress}/api/status`);
    expect(await status.json()).toEqual({ did: 'status' });
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

  it.each(['/api/status', '/api/deployments', '/healthz', '/'])('has nothing at %s', async (path) => {
    const text = `GET ${path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n`;
    expect(parseAnswer(await rawExchange(options.memberSocketPath, text)).status).toBe(404);
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
