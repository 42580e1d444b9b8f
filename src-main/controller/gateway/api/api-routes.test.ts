import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { coreRoutes, type ApiEvent } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { startHttpServer, type HttpServer } from '../../../nodejs/http/http-server.ts';
import {
  everybody,
  getText,
  rawClient,
  rawExchange,
  recordingLogger,
  within,
} from '../../../nodejs/http/fixtures.ts';
import type { ControllerService } from '../ports.ts';
import { coreRoutesGroup } from './api-routes.ts';

interface Call {
  readonly method: string;
  readonly args: readonly unknown[];
}

let calls: Call[];
let listeners: Set<(event: ApiEvent) => void>;
/** Those who asked for live figures. */
let live: Set<(event: ApiEvent) => void>;
let past: ApiEvent[];
let failure: CoveyError | null;
let server: HttpServer;

/** Records each call and answers with its own name; the translation is what is tested here. */
function scriptedService(): ControllerService {
  const record =
    (method: string) =>
    (...args: unknown[]): unknown => {
      calls.push({ method, args: args.filter((arg) => !(arg instanceof AbortSignal)) });
      if (failure) throw failure;
      if (method === 'load')
        return Promise.resolve({
          deployment: { did: method },
          existed: (args[0] as { model: string }).model === 'old',
        });
      if (method === 'nodes' || method === 'deployments' || method === 'logs' || method === 'transfers')
        return [{ did: method }];
      if (method === 'models') return Promise.resolve([{ did: method }]);
      return { did: method };
    };
  const service = {
    subscribeLive(listener: (event: ApiEvent) => void) {
      live.add(listener);
      listener({ id: null, at: 1, kind: 'live', level: 'info', message: 'all' });
      return () => void live.delete(listener);
    },
    subscribeLogs(listener: (event: ApiEvent) => void) {
      live.add(listener);
      listener({ id: null, at: 1, kind: 'logs', level: 'info', message: 'Log lines', lines: [] });
      return () => void live.delete(listener);
    },
    subscribe(lastId: number | null, listener: (event: ApiEvent) => void) {
      calls.push({ method: 'subscribe', args: [lastId] });
      if (lastId !== null) past.forEach(listener);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  return new Proxy(service as unknown as ControllerService, {
    get: (target, name) =>
      name === 'subscribe' || name === 'subscribeLive' || name === 'subscribeLogs'
        ? target[name].bind(target)
        : record(String(name)),
  });
}

beforeEach(async () => {
  calls = [];
  listeners = new Set();
  live = new Set();
  past = [];
  failure = null;
  server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: [coreRoutesGroup(scriptedService())],
    authenticate: everybody,
    logger: recordingLogger(),
  });
});
afterEach(() => server.close());

async function send(
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; json: unknown }> {
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  return { status: response.status, json: await response.json() };
}

/** Route, path, body; then the call it becomes, the status and the answer. */
const table: [keyof typeof coreRoutes, string, unknown, Call, number, unknown][] = [
  ['status', '/api/status', undefined, { method: 'status', args: [] }, 200, { did: 'status' }],
  ['nodes', '/api/nodes', undefined, { method: 'nodes', args: [] }, 200, { nodes: [{ did: 'nodes' }] }],
  ['node', '/api/nodes/my%20attic', undefined, { method: 'node', args: ['my attic'] }, 200, { did: 'node' }],
  [
    'drain',
    '/api/nodes/attic/drain',
    { deadlineMs: 5 },
    { method: 'drain', args: ['attic', 5] },
    200,
    { did: 'drain' },
  ],
  [
    'drain',
    '/api/nodes/attic/drain',
    undefined,
    { method: 'drain', args: ['attic', undefined] },
    200,
    { did: 'drain' },
  ],
  [
    'resume',
    '/api/nodes/attic/resume',
    undefined,
    { method: 'resume', args: ['attic'] },
    200,
    { did: 'resume' },
  ],
  ['pingNode', '/api/nodes/attic/ping', undefined, { method: 'ping', args: ['attic'] }, 200, { did: 'ping' }],
  ['pause', '/api/nodes/attic/pause', undefined, { method: 'pause', args: ['attic'] }, 200, { did: 'pause' }],
  [
    'renameNode',
    '/api/nodes/attic',
    { name: 'Küche-2' },
    { method: 'renameNode', args: ['attic', 'Küche-2'] },
    200,
    { did: 'renameNode' },
  ],
  [
    'nodeHistory',
    '/api/nodes/attic/history',
    undefined,
    { method: 'nodeHistory', args: ['attic'] },
    200,
    { did: 'nodeHistory' },
  ],
  [
    'removeModel',
    '/api/nodes/attic/models/tiny.v2',
    undefined,
    { method: 'removeModel', args: ['attic', 'tiny.v2'] },
    200,
    {},
  ],
  [
    'transfers',
    '/api/transfers',
    undefined,
    { method: 'transfers', args: [] },
    200,
    { transfers: [{ did: 'transfers' }] },
  ],
  [
    'previewLoad',
    '/api/deployments/preview',
    { model: 'm', split: { a: 1 } },
    { method: 'preview', args: [{ model: 'm', split: { a: 1 } }] },
    200,
    { did: 'preview' },
  ],
  [
    'eventHistory',
    '/api/events/history?before=9&limit=5&node=attic&level=warn,error&kind=a,b&text=50%25',
    undefined,
    {
      method: 'eventHistory',
      args: [{ before: 9, limit: 5, node: 'attic', level: ['warn', 'error'], kind: ['a', 'b'], text: '50%' }],
    },
    200,
    { did: 'eventHistory' },
  ],
  ['removeNode', '/api/nodes/attic', undefined, { method: 'removeNode', args: ['attic'] }, 200, {}],
  ['models', '/api/models', undefined, { method: 'models', args: [] }, 200, { models: [{ did: 'models' }] }],
  [
    'importModel',
    '/api/models/import',
    { node: 'attic', path: '/m.gguf' },
    { method: 'importModel', args: ['attic', '/m.gguf', undefined] },
    202,
    { did: 'importModel' },
  ],
  [
    'pullModel',
    '/api/models/pull',
    { source: 'hf:a/b', node: 'attic' },
    { method: 'pullModel', args: ['hf:a/b', 'attic'] },
    202,
    { did: 'pullModel' },
  ],
  [
    'transfer',
    '/api/transfers/t1',
    undefined,
    { method: 'transfer', args: ['t1'] },
    200,
    { did: 'transfer' },
  ],
  [
    'cancelTransfer',
    '/api/transfers/t1',
    undefined,
    { method: 'cancelTransfer', args: ['t1'] },
    200,
    { did: 'cancelTransfer' },
  ],
  [
    'deployments',
    '/api/deployments',
    undefined,
    { method: 'deployments', args: [] },
    200,
    { deployments: [{ did: 'deployments' }] },
  ],
  [
    'deployment',
    '/api/deployments/d-1',
    undefined,
    { method: 'deployment', args: ['d-1'] },
    200,
    { did: 'deployment' },
  ],
  [
    'load',
    '/api/deployments',
    { model: 'new', split: { a: 60, b: 40 } },
    { method: 'load', args: [{ model: 'new', split: { a: 60, b: 40 } }] },
    202,
    { did: 'load' },
  ],
  [
    'load',
    '/api/deployments',
    { model: 'old' },
    { method: 'load', args: [{ model: 'old' }] },
    200,
    { did: 'load' },
  ],
  ['unload', '/api/deployments/d-1', undefined, { method: 'unload', args: ['d-1'] }, 200, { did: 'unload' }],
  [
    'retry',
    '/api/deployments/d-1/retry',
    undefined,
    { method: 'retry', args: ['d-1'] },
    200,
    { did: 'retry' },
  ],
  [
    'logs',
    '/api/logs?node=attic&limit=5',
    undefined,
    { method: 'logs', args: [{ node: 'attic', limit: 5 }] },
    200,
    { lines: [{ did: 'logs' }] },
  ],
  [
    'logs',
    '/api/logs',
    undefined,
    { method: 'logs', args: [{ limit: 500 }] },
    200,
    { lines: [{ did: 'logs' }] },
  ],
];

describe('routes', () => {
  it.each(table)('%s: %s %j', async (name, path, body, call, status, json) => {
    expect(await send(coreRoutes[name].method, path, body)).toEqual({ status, json });
    expect(calls).toEqual([call]);
  });

  it('covers the contract', () => {
    const covered = new Set(table.map(([name]) => name));
    expect(
      (Object.keys(coreRoutes) as (keyof typeof coreRoutes)[]).filter((name) => !covered.has(name)),
    ).toEqual(['events']);
  });

  it.each([
    ['POST', '/api/deployments', {}, 'model'],
    ['POST', '/api/deployments', { model: 7 }, 'model'],
    ['POST', '/api/deployments', { model: 'm', split: { a: 'much' } }, 'split.a'],
    ['POST', '/api/deployments', { model: 'm', nodes: [] }, 'nodes'],
    ['POST', '/api/deployments', { model: 'm', ctx: 5 }, 'ctx'],
    ['POST', '/api/deployments', { model: 'm', parallel: 1.5 }, 'parallel'],
    ['POST', '/api/nodes/a/drain', { deadlineMs: -1 }, 'deadlineMs'],
    ['POST', '/api/models/import', { node: 'a' }, 'path'],
    ['POST', '/api/nodes/a/resume', { expires: 5 }, 'expires'],
    ['GET', `/api/nodes/${'n'.repeat(300)}`, undefined, 'node'],
    ['GET', '/api/logs?limit=many', undefined, 'limit'],
    ['GET', '/api/logs?limit=0', undefined, 'limit'],
    ['GET', '/api/logs?since=5', undefined, 'since'],
    ['GET', '/api/events/history?before=0', undefined, 'before'],
    ['GET', '/api/events/history?limit=1001', undefined, 'limit'],
    ['GET', '/api/events/history?level=loud', undefined, 'level.0'],
    ['GET', '/api/events/history?deployment=x', undefined, 'deployment'],
    ['GET', `/api/events/history?text=${'x'.repeat(257)}`, undefined, 'text'],
    ['GET', '/api/events/history?after=5', undefined, 'after'],
    ['PATCH', '/api/nodes/attic', { name: 'two words' }, 'name'],
    ['PATCH', '/api/nodes/attic', { name: '-rf' }, 'name'],
    ['PATCH', '/api/nodes/attic', { name: 'n'.repeat(65) }, 'name'],
    ['PATCH', '/api/nodes/attic', {}, 'name'],
    ['POST', '/api/deployments/preview', { model: 'm', split: { a: 'much' } }, 'split.a'],
    ['GET', '/api/events?live=yes', undefined, 'live'],
  ])('%s %s %j is refused for %s', async (method, path, body, field) => {
    const { status, json } = await send(method, path, body);
    expect({ status, json }).toMatchObject({
      status: 400,
      json: { error: { code: 'invalid_request', field } },
    });
    expect((json as { error: { message: string } }).error.message).toContain(field);
    expect(calls).toEqual([]);
  });

  it("answers with the service's own refusal, whole", async () => {
    const reasons = [{ code: 'memory', message: 'too large', neededBytes: 5, availableBytes: 3 }];
    failure = new CoveyError('placement_refused', 'It does not fit.', { field: 'split', reasons });
    expect(await send('POST', '/api/deployments', { model: 'm' })).toEqual({
      status: 422,
      json: { error: { code: 'placement_refused', message: 'It does not fit.', field: 'split', reasons } },
    });
    failure = new CoveyError('no_nodes', 'No machine has joined.', { retryAfterS: 4 });
    const response = await fetch(`http://127.0.0.1:${server.port}/api/status`);
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '4']);
  });

  it('refuses a body above 1 MiB', async () => {
    const { status, json } = await send('POST', '/api/deployments', { model: 'm'.repeat(1024 * 1024) });
    expect({ status, json }).toMatchObject({ status: 413, json: { error: { code: 'body_too_large' } } });
  });
});

describe('events', () => {
  const event = (id: number | null, message = 'x'): ApiEvent => ({
    id,
    at: 1,
    kind: 'test',
    level: 'info',
    message,
  });
  const follow = async (headers: readonly string[] = []) => {
    const client = await rawClient(server.port);
    const before = listeners.size;
    client.send(getText(server.port, '/api/events', headers));
    await expect.poll(() => listeners.size).toBe(before + 1);
    return client;
  };

  it('come as server-sent events, live ones without an id', async () => {
    past = [event(7, 'old')];
    const client = await follow();
    listeners.forEach((listener) => listener(event(8, 'two\nlines')));
    listeners.forEach((listener) => listener(event(null, 'progress')));
    const text = await client.until('progress');
    expect(text).toMatch(/^content-type: text\/event-stream/im);
    expect(text).toContain(`id: 8\ndata: ${JSON.stringify(event(8, 'two\nlines'))}\n\n`);
    expect(text).toContain(`\ndata: ${JSON.stringify(event(null, 'progress'))}\n\n`);
    expect(text).not.toContain('old');
    expect(text).not.toContain('id: null');
    client.close();
    await expect.poll(() => listeners.size).toBe(0);
  });

  it('have live figures for those who ask for them', async () => {
    const plain = await follow();
    const client = await rawClient(server.port);
    client.send(getText(server.port, '/api/events?live=1'));
    expect(await client.until('"message":"all"')).toContain('"kind":"live"');
    expect([listeners.size, live.size]).toEqual([2, 1]);
    client.close();
    await expect.poll(() => [listeners.size, live.size]).toEqual([1, 0]);
    plain.close();
  });

  it('are log lines alone for those who ask for them', async () => {
    const client = await rawClient(server.port);
    client.send(getText(server.port, '/api/events?logs=1'));
    expect(await client.until('"lines":[]')).toContain('"kind":"logs"');
    expect([listeners.size, live.size]).toEqual([0, 1]);
    client.close();
    await expect.poll(() => live.size).toBe(0);
  });

  it('go on where a follower was cut off', async () => {
    past = [event(8), event(9)];
    const client = await follow(['Last-Event-ID: 7']);
    const text = await client.until('id: 9');
    expect(text).toContain('id: 8');
    expect(calls).toEqual([{ method: 'subscribe', args: [7] }]);
    client.close();
    expect(
      await rawExchange(
        server.port,
        getText(server.port, '/api/events', ['Last-Event-ID: x', 'Connection: close']),
      ),
    ).toMatch(/^HTTP\/1.1 400/);
  });

  it('cut off a follower that does not read, and no other', async () => {
    const slow = await follow();
    slow.socket.pause();
    const quick = await follow();
    const big = event(1, 'y'.repeat(50_000));
    for (let count = 0; count < 400 && listeners.size === 2; count++) {
      listeners.forEach((listener) => listener(big));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(listeners.size).toBe(1);
    listeners.forEach((listener) => listener(event(2, 'after')));
    await quick.until('after');
    quick.close();
    slow.close();
  });

  it('have a bound on their followers', async () => {
    const clients = [];
    for (let count = 0; count < 64; count++) clients.push(await follow());
    expect(await rawExchange(server.port, getText(server.port, '/api/events'))).toMatch(/^HTTP\/1.1 429/);
    clients.pop()?.close();
    await expect.poll(() => listeners.size).toBe(63);
    clients.push(await follow());
    clients.forEach((client) => client.close());
    await expect.poll(() => listeners.size).toBe(0);
  });

  it('end when the server closes', async () => {
    const client = await follow();
    const text = client.ended();
    await within('the server to close', server.close());
    expect(await text).toMatch(/0\r\n\r\n$/);
  });
});
