import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { runCovey } from '../support/cli.ts';
import type { NodeEnded } from '../support/cluster.ts';
import { type RunningController, type RunningNode } from '../support/cluster.ts';
import { freePort } from '../support/ports.ts';
import { untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();

async function ask(
  node: { readonly api: string | null },
  path: string,
  token?: string,
  init: RequestInit = {},
): Promise<{ status: number; json: unknown }> {
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
  };
  const signal = AbortSignal.timeout(20_000);
  const response = await fetch(`${node.api}${path}`, { ...init, headers, signal });
  return { status: response.status, json: await response.json() };
}

const statusOf = async (...asked: Parameters<typeof ask>): Promise<number> => (await ask(...asked)).status;
const codeOf = async (...asked: Parameters<typeof ask>): Promise<string> =>
  ((await ask(...asked)).json as { error: { code: string } }).error.code;

describe('the API of a controller', () => {
  test('needs the token of its data directory, which stays the same; /v1 is open on loopback', async () => {
    const controller = await cluster.current.startController({ name: 'hall' });
    const file = path.join(controller.dataDirectory, 'api-access.json');
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await statusOf(controller, '/api/status')).toBe(401);
    expect(await statusOf(controller, '/api/status', controller.token)).toBe(200);
    expect(await statusOf(controller, '/v1/models')).toBe(200);
    expect((await runCovey(controller, ['status'])).code).toBe(0);
    expect(controller.process.output()).not.toContain(controller.token);
    await controller.stop();
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ apiAddress: null });
    const again = await cluster.current.startController({ dataDirectory: controller.dataDirectory });
    expect(again.token).toBe(controller.token);
    const stranger = await runCovey({ dataDirectory: cluster.current.directory }, [
      'status',
      '--api',
      again.api,
    ]);
    expect([stranger.code, stranger.stderr]).toEqual([1, expect.stringContaining('covey login')]);
  });

  test('keys and settings have effect at once, and leave their trace', async () => {
    const controller = await cluster.current.startController({ name: 'hall' });
    const made = await runCovey(controller, ['keys', 'create', 'apps']);
    const key = made.stdout.trim();
    expect(key).toMatch(/^covey_key_/);
    await runCovey(controller, ['config', 'set', 'api.requireKey', 'on']);
    expect(await codeOf(controller, '/v1/models')).toBe('key_missing');
    expect(await statusOf(controller, '/v1/models', key)).toBe(200);
    expect(await codeOf(controller, '/api/status', key)).toBe('admin_required');
    await runCovey(controller, ['keys', 'revoke', 'apps']);
    expect(await codeOf(controller, '/v1/models', key)).toBe('key_invalid');
    const { stdout } = await runCovey(controller, ['events']);
    for (const said of [
      'apps was made',
      'apps is in use',
      'api.requireKey was changed',
      'apps was revoked',
    ]) {
      expect(stdout).toContain(said);
    }
    expect(stdout + controller.process.output()).not.toContain(key);
  });

  test('a damaged configuration stops the start, naming file and field', async () => {
    const controller = await cluster.current.startController({ name: 'hall' });
    await controller.stop();
    writeFileSync(path.join(controller.dataDirectory, 'config.json'), '{"lan":{"port":"many"}}');
    const start = cluster.current.startController({ dataDirectory: controller.dataDirectory });
    const { output } = (await start.catch((error: unknown) => error)) as NodeEnded;
    expect(output).toMatch(/config\.json .*lan\.port/);
    expect(output).not.toMatch(/at .*\.js:\d+/);
  });
});

describe('on the LAN', () => {
  const get = (port: number, ca: string, target: string, token?: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const options = { host: '127.0.0.1', port, path: target, ca, headers, agent: false, timeout: 10_000 };
      httpsRequest(options, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      })
        .on('error', reject)
        .end();
    });

  test('it goes on with a key and off again without a restart, and never without one', async () => {
    const controller = await cluster.current.startController({ name: 'hall' });
    const port = await freePort();
    await runCovey(controller, ['config', 'set', 'lan.port', String(port)]);
    const refused = await runCovey(controller, ['config', 'set', 'lan.enabled', 'on']);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('covey keys create')]);
    const key = (await runCovey(controller, ['keys', 'create', 'apps'])).stdout.trim();
    const on = await runCovey(controller, ['config', 'set', 'lan.enabled', 'on']);
    expect([on.code, on.stdout]).toEqual([0, 'lan.enabled is true now.\n']);
    const ca = readFileSync(path.join(controller.dataDirectory, 'lan', 'ca.pem'), 'utf8');
    expect(await get(port, ca, '/v1/models')).toBe(401);
    expect(await get(port, ca, '/v1/models', key)).toBe(200);
    expect(await get(port, ca, '/api/status', controller.token)).toBe(401);
    // It is there again after a restart, with the same certificate.
    await controller.stop();
    const again = await cluster.current.startController({ dataDirectory: controller.dataDirectory });
    await waitFor('LAN access', () => get(port, ca, '/v1/models', key).catch(() => 0), 10_000);
    await runCovey(again, ['config', 'set', 'lan.enabled', 'off']);
    await expect(get(port, ca, '/v1/models', key)).rejects.toThrow('ECONNREFUSED');
  });

  test('a port that is taken is named, and nothing else suffers', async () => {
    const controller = await cluster.current.startController({ name: 'hall' });
    await runCovey(controller, ['keys', 'create', 'apps']);
    const taken = new URL(controller.api).port;
    await runCovey(controller, ['config', 'set', 'lan.port', taken]);
    const on = await runCovey(controller, ['config', 'set', 'lan.enabled', 'on']);
    expect([on.code, on.stderr]).toEqual([
      1,
      expect.stringMatching(new RegExp(`warning: Port ${taken} .*lan.port`)),
    ]);
    expect(await statusOf(controller, '/api/status', controller.token)).toBe(200);
  });
});

describe('the API of a worker', () => {
  let controller: RunningController;
  let worker: RunningNode;
  async function start(): Promise<void> {
    controller = await cluster.current.startController({ name: 'hall' });
    const join = await controller.invite();
    worker = await cluster.current.startWorker({ name: 'desk', join, api: '127.0.0.1:0' });
    await untilEligible(controller, 1);
  }

  test('is its own with its own token, and the controller with a login there', async () => {
    await start();
    const own = worker.token ?? '';
    expect(own).not.toBe(controller.token);
    expect(await ask(worker, '/api/self', own)).toMatchObject({ json: { role: 'worker', name: 'desk' } });
    expect(await statusOf(worker, '/v1/models')).toBe(200);
    expect(await codeOf(worker, '/api/nodes', own)).toBe('admin_required');
    expect(await codeOf(worker, '/api/nodes', controller.token)).toBe('token_invalid');
    const refused = await runCovey(worker, ['nodes']);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('covey login')]);

    const link = (await runCovey(controller, ['open'])).stdout;
    const login = await runCovey(worker, ['login'], { input: link });
    expect([login.code, login.stdout]).toEqual([0, expect.stringContaining('Logged in for')]);
    expect((await runCovey(worker, ['nodes'])).stdout).toContain('desk');
    const followed = await runCovey(worker, ['events']);
    expect(followed.stdout).toContain('logged in on another machine of the covey');
    // What is about the machine stays about the machine.
    expect((await runCovey(worker, ['config', 'set', 'api.allowedHosts', 'desk.example'])).code).toBe(0);
    expect((await runCovey(controller, ['config', 'get', 'api.allowedHosts'])).stdout).toBe('none\n');
    expect((await runCovey(worker, ['logout'])).stdout).toBe('Logged out.\n');
    expect((await runCovey(worker, ['nodes'])).code).toBe(1);
    expect((await runCovey(worker, ['login'], { input: link })).stderr).toContain('used already');
  });

  test('wants a key for /v1 when its owner says so, or the controller does', async () => {
    await start();
    const key = (await runCovey(controller, ['keys', 'create', 'apps'])).stdout.trim();
    await runCovey(worker, ['config', 'set', 'api.requireKey', 'on']);
    expect(await codeOf(worker, '/v1/models')).toBe('key_missing');
    expect(await codeOf(worker, '/v1/models', 'covey_key_wrong')).toBe('key_missing');
    expect(await statusOf(worker, '/v1/models', key)).toBe(200);
    expect(await statusOf(controller, '/v1/models')).toBe(200);
    await runCovey(worker, ['config', 'unset', 'api.requireKey']);
    await runCovey(controller, ['config', 'set', 'api.requireKey', 'on']);
    expect(await codeOf(worker, '/v1/models')).toBe('key_missing');
    expect(await statusOf(worker, '/v1/models', key)).toBe(200);
  });
});
