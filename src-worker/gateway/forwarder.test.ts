import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import { scriptedSelf } from '../../src-main/nodejs/access/fixtures.ts';
import { newToken } from '../../src-main/nodejs/access/tokens.ts';
import {
  answer,
  chunk,
  eventStreamHead,
  getText,
  jsonCaller,
  parseAnswer,
  postText,
  rawClient,
  rawExchange,
  recordingLogger,
  startUpstream,
  type ScriptedUpstream,
  type UpstreamRequest,
} from '../../src-main/nodejs/http/fixtures.ts';
import { openSettings, type SettingsStore } from '../../src-main/nodejs/settings/settings-store.ts';
import { createForwarder, type Forwarder } from './forwarder.ts';

let controller: ScriptedUpstream;
let script: (request: UpstreamRequest) => void;
let dial: (signal: AbortSignal) => Promise<Duplex>;
let status: {
  connected: boolean;
  controllerName: string | null;
  trouble: ErrorBody | null;
  engines: object[];
};
let forwarder: Forwarder;
let port: number;
let directory: string;
let settings: SettingsStore;
const localToken = newToken('local');

beforeEach(async () => {
  script = ({ socket }) => socket.destroy();
  controller = await startUpstream((request) => script(request));
  dial = () => {
    const socket = connect(controller.port, '127.0.0.1');
    return new Promise((resolve, reject) =>
      socket.once('connect', () => resolve(socket)).once('error', reject),
    );
  };
  status = {
    connected: true,
    controllerName: 'den',
    trouble: null,
    engines: [{ endpoint: { apiKey: 'secret' } }],
  };
  directory = await mkdtemp(join(tmpdir(), 'covey-forwarder-'));
  settings = await openSettings(directory);
  forwarder = await createForwarder({
    listen: { host: '127.0.0.1', port: 0 },
    dialGateway: (signal) => dial(signal),
    status: () => status,
    local: { verify: (candidate) => candidate === localToken },
    self: scriptedSelf('worker'),
    settings,
    clock: { now: Date.now },
    logger: recordingLogger(),
  });
  port = Number(new URL(forwarder.apiAddress).port);
});
afterEach(async () => {
  await forwarder.close();
  await controller.close();
  await rm(directory, { recursive: true });
});

const event = (text: string): string =>
  chunk(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`);
const done = `${chunk('data: [DONE]\n\n')}0\r\n\r\n`;

describe('/v1', () => {
  it('goes to the controller as it came, without credentials of other services', async () => {
    script = ({ socket }) => socket.end(answer(200, '{"object":"list","data":[]}'));
    const got = parseAnswer(
      await rawExchange(port, getText(port, '/v1/models?x=%20y', ['Cookie: a=b', 'Connection: close'])),
    );
    expect([got.status, got.body]).toEqual([200, '{"object":"list","data":[]}']);
    const body = '{ "model" : "m" }';
    await rawExchange(
      port,
      postText(port, '/v1/chat/completions', body, ['Authorization: Bearer x', 'Connection: close']),
    );
    expect(controller.requests.map(({ head }) => head)).toEqual([
      'GET /v1/models?x=%20y HTTP/1.1\r\nHost: gateway\r\nConnection: close',
      'POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n' +
        `Content-Length: ${body.length}\r\nConnection: close`,
    ]);
    expect(controller.requests[1]?.body.toString()).toBe(body);
  });

  it('answers HEAD', async () => {
    script = ({ socket }) => socket.end(answer(200, '{"object":"list"}'));
    const head = getText(port, '/v1/models').replace('GET', 'HEAD');
    expect(await rawExchange(port, head)).toMatch(/^HTTP\/1.1 200 OK\r\n.*\r\n\r\n$/s);
  });

  it('streams, and an abort reaches the controller within 100 ms', async () => {
    let abortedAt = Infinity;
    let closedAfterMs = Infinity;
    script = ({ socket, closed }) => {
      socket.write(eventStreamHead + event('Hello'));
      void closed.then(() => (closedAfterMs = performance.now() - abortedAt));
    };
    const client = new OpenAI({ baseURL: `${forwarder.apiAddress}/v1`, apiKey: 'x', maxRetries: 0 });
    const stream = await client.chat.completions.create({ model: 'm', messages: [], stream: true });
    for await (const part of stream) {
      expect(part.choices[0]?.delta.content).toBe('Hello');
      abortedAt = performance.now();
      stream.controller.abort();
    }
    await controller.requests[0]?.closed;
    expect(closedAfterMs).toBeLessThan(100);
  });

  it("gives the controller's answer for an error unchanged", async () => {
    const body = '{"error":{"message":"loading","type":"server_error","param":null,"code":"not_ready"}}';
    script = ({ socket }) =>
      socket.end(
        `HTTP/1.1 503 X\r\nContent-Type: application/json\r\nRetry-After: 7\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    const got = parseAnswer(
      await rawExchange(port, postText(port, '/v1/completions', { model: 'm' }, ['Connection: close'])),
    );
    expect([got.status, got.body]).toEqual([503, body]);
    expect(got.head).toMatch(/^retry-after: 7$/im);
  });

  it.each([
    [
      'cannot be reached',
      () => Promise.reject(new CoveyError('controller_unreachable', 'no answer from 10.0.0.2')),
      503,
      'controller_unreachable',
      '3',
    ],
    [
      'does not know this machine any more',
      () => Promise.reject(new CoveyError('node_removed', 'This machine was removed.')),
      403,
      'node_removed',
      null,
    ],
  ])('says when the controller %s', async (_name, refuse, code, name, retryAfter) => {
    dial = refuse;
    const response = await fetch(`${forwarder.apiAddress}/v1/models`);
    expect([response.status, response.headers.get('retry-after')]).toEqual([code, retryAfter]);
    expect(await response.json()).toMatchObject({ error: { code: name, param: null } });
  });

  it('says when the connection is cut before the answer', async () => {
    const response = await fetch(`${forwarder.apiAddress}/v1/models`);
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('3');
    expect(await response.json()).toMatchObject({ error: { code: 'controller_unreachable' } });
  });

  it('ends a stream that is cut with an error event', async () => {
    script = ({ socket }) => socket.end(eventStreamHead + event('Hello') + event('x').slice(0, 20));
    const text = await rawExchange(
      port,
      postText(port, '/v1/completions', { model: 'm', stream: true }, ['Connection: close']),
    );
    const { body, complete } = parseAnswer(text);
    expect(complete).toBe(true);
    expect(body).toMatch(/^data: .*"Hello".*\n\ndata: \{"error":.*stream_interrupted.*\}\n\n$/);
  });

  it("keeps the caller's connection", async () => {
    script = ({ socket }) => socket.end(eventStreamHead + event('Hello') + done);
    const client = await rawClient(port);
    for (let count = 1; count <= 3; count++) {
      client.send(postText(port, '/v1/completions', { model: 'm', stream: true }));
      await expect.poll(() => client.text().split('0\r\n\r\n').length).toBe(count + 1);
    }
    client.close();
  });

  it('lets no other page or name in', async () => {
    expect(
      await rawExchange(
        port,
        `GET /v1/models HTTP/1.1\r\nHost: evil.example:${port}\r\nConnection: close\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1.1 403/);
    expect(
      await rawExchange(
        port,
        getText(port, '/v1/models', ['Origin: http://evil.example', 'Connection: close']),
      ),
    ).toMatch(/^HTTP\/1.1 403/);
    expect(controller.requests).toHaveLength(0);
  });

  it('is one request, whatever the client puts into its target', async () => {
    script = ({ socket }) => socket.end(answer(200, '{}'));
    for (const target of ['/v1/models%0d%0aX:%20y', '/v1/a\tb', '/v1/a b', '/v1/\xff']) {
      await rawExchange(
        port,
        `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`,
      );
    }
    for (const { head } of controller.requests) {
      expect(head).toMatch(/^GET [\x21-\x7e\x80-\xff]+ HTTP\/1\.1\r\nHost: gateway\r\nConnection: close$/);
    }
  });
});

describe('a key', () => {
  it('goes along, and the wish of this machine that there be one', async () => {
    script = ({ socket }) => socket.end(answer(200, '{}'));
    const key = newToken('key');
    await rawExchange(
      port,
      getText(port, '/v1/models', [`Authorization: Bearer ${key}`, 'Connection: close']),
    );
    await settings.patch({ api: { requireKey: true } });
    await rawExchange(port, getText(port, '/v1/models'));
    // Nobody adds the wish, or a second line, from outside.
    await rawExchange(port, getText(port, '/v1/models', ['covey-require-key: 0', 'Connection: close']));
    expect(controller.requests.map(({ head }) => head)).toEqual([
      `GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\nConnection: close`,
      'GET /v1/models HTTP/1.1\r\nHost: gateway\r\ncovey-require-key: 1\r\nConnection: close',
      'GET /v1/models HTTP/1.1\r\nHost: gateway\r\ncovey-require-key: 1\r\nConnection: close',
    ]);
  });

  it("that is this machine's own token stays here", async () => {
    script = ({ socket }) => socket.end(answer(200, '{}'));
    await rawExchange(
      port,
      getText(port, '/v1/models', [`Authorization: Bearer ${localToken}`, 'Connection: close']),
    );
    expect(controller.requests[0]?.head).not.toContain('Authorization');
  });
});

describe('/api', () => {
  const call = jsonCaller(() => forwarder.apiAddress);
  const code = (json: unknown): unknown => (json as { error: { code: string } }).error.code;

  it("about this machine is answered here, for this machine's own token alone", async () => {
    expect(await call('GET', '/api/self', localToken)).toMatchObject({
      status: 200,
      json: { role: 'worker' },
    });
    expect((await call('PATCH', '/api/settings', localToken, {})).status).toBe(200);
    for (const token of [newToken('machine'), newToken('local'), 'x']) {
      const { status, json } = await call('GET', '/api/settings', token);
      expect([status, code(json)]).toEqual([401, 'token_invalid']);
    }
    // It goes on being logged in at the controller, however often the dashboard asks.
    for (let count = 0; count < 12; count++) {
      for (const token of [newToken('session'), newToken('key')]) {
        const { status, json } = await call('GET', '/api/settings', token);
        expect([status, code(json)]).toEqual([403, 'owner_required']);
      }
    }
    expect(code((await call('GET', '/api/self')).json)).toBe('token_missing');
    expect(controller.requests).toHaveLength(0);
  });

  it("of the controller goes there with the caller's own login or key", async () => {
    script = ({ socket }) => socket.end(answer(202, '{"did":"it"}'));
    const token = newToken('session');
    expect(await call('GET', '/api/nodes?x=1', token)).toEqual({ status: 202, json: { did: 'it' } });
    await call('POST', '/api/nodes/a/drain', token, { deadlineMs: 5 });
    await call('DELETE', '/api/nodes/a', token);
    const line = `\r\nHost: gateway\r\nAuthorization: Bearer ${token}\r\n`;
    expect(controller.requests.map(({ head }) => head)).toEqual([
      `GET /api/nodes?x=1 HTTP/1.1${line}Connection: close`,
      `POST /api/nodes/a/drain HTTP/1.1${line}Content-Type: application/json\r\nContent-Length: 16\r\nConnection: close`,
      `DELETE /api/nodes/a HTTP/1.1${line}Connection: close`,
    ]);
  });

  it('takes bodies of every kind along, with what says how they are meant', async () => {
    script = ({ socket }) => socket.end(answer(200, '{}'));
    const authorization = { Authorization: `Bearer ${newToken('session')}` };
    const send = async (
      method: string,
      path: string,
      type: string,
      body: string | Uint8Array<ArrayBuffer>,
    ) => {
      const headers = { ...authorization, 'Content-Type': type, 'Idempotency-Key': 'k-1234567' };
      return (await fetch(forwarder.apiAddress + path, { method, headers, body })).status;
    };
    const chunk = `/api/artifacts/uploads/u-1/chunks/${'a'.repeat(64)}`;
    const bytes = new Uint8Array(4 * 1024 * 1024).fill(7);
    expect(await send('PUT', '/api/jobs/j/distribution', 'application/json', '{"mode":"auto"}')).toBe(200);
    expect(await send('POST', '/api/jobs', 'application/json', '{}')).toBe(200);
    expect(await send('PUT', chunk, 'application/octet-stream', bytes)).toBe(200);
    expect(
      await send('POST', '/api/artifacts/uploads', 'application/json', `{"x":"${'y'.repeat(2e6)}"}`),
    ).toBe(200);
    expect(await send('PUT', chunk, 'application/octet-stream', new Uint8Array(bytes.length + 1))).toBe(413);
    expect(await send('POST', '/api/jobs', 'application/octet-stream', '{}')).toBe(415);
    const [shares, job, put, announced] = controller.requests;
    expect(shares?.head).toMatch(/\r\nContent-Type: application\/json\r\nContent-Length: 15\r\n/);
    expect(shares?.body.toString()).toBe('{"mode":"auto"}');
    expect(job?.head).toContain('\r\nIdempotency-Key: k-1234567\r\n');
    expect(put?.head).toContain('\r\nContent-Type: application/octet-stream\r\nContent-Length: 4194304\r\n');
    expect(put?.body.equals(bytes)).toBe(true);
    expect(announced?.body.length).toBe(2e6 + 8);
  });

  it('brings parts of files, with what says which', async () => {
    script = ({ socket }) =>
      socket.end(
        'HTTP/1.1 206 Partial Content\r\nContent-Type: application/octet-stream\r\nETag: "e"\r\n' +
          'Content-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\nabc',
      );
    const headers = { Authorization: `Bearer ${newToken('session')}`, Range: 'bytes=2-' };
    const got = await fetch(`${forwarder.apiAddress}/api/artifacts/x/content`, { headers });
    expect([got.status, await got.text()]).toEqual([206, 'abc']);
    expect(got.headers.get('content-range')).toBe('bytes 2-4/9');
    expect(got.headers.get('etag')).toBe('"e"');
    expect(controller.requests[0]?.head).toContain('\r\nRange: bytes=2-\r\n');
  });

  it("is not reached with this machine's own token, a wrong one or none", async () => {
    expect(await call('GET', '/api/nodes', localToken)).toMatchObject({
      status: 403,
      json: { error: { code: 'admin_required' } },
    });
    expect(await call('GET', '/api/nodes')).toMatchObject({
      status: 401,
      json: { error: { code: 'token_missing' } },
    });
    expect(await call('GET', '/api/nodes', 'sk-x')).toMatchObject({
      status: 401,
      json: { error: { code: 'token_invalid' } },
    });
    for (let count = 0; count < 20; count++) await call('GET', '/api/nodes', newToken('local'));
    expect(code((await call('GET', '/api/nodes', 'x')).json)).toBe('too_many_requests');
    expect((await call('GET', '/api/self', localToken)).status).toBe(200);
    expect(controller.requests).toHaveLength(0);
  });

  it('lets a person log in at the controller from here', async () => {
    script = ({ socket }) => socket.end(answer(200, '{"token":"t"}'));
    expect((await call('POST', '/api/sessions', undefined, { code: 'c' })).json).toEqual({ token: 't' });
    expect(controller.requests[0]?.body.toString()).toBe('{"code":"c"}');
  });

  it('streams events, and goes on where they were cut', async () => {
    script = ({ socket }) => socket.write(`${eventStreamHead}${chunk('id: 8\ndata: {}\n\n')}`);
    const client = await rawClient(port);
    const headers = [`Authorization: Bearer ${newToken('session')}`, 'Last-Event-ID: 7'];
    client.send(getText(port, '/api/events', headers));
    await client.until('id: 8');
    expect(controller.requests[0]?.head).toContain('\r\nLast-Event-ID: 7\r\n');
    client.close();
    await controller.requests[0]?.closed;
  });

  it('says when the controller cannot be reached, in its own shape', async () => {
    dial = () => Promise.reject(new CoveyError('controller_unreachable', 'no answer from 10.0.0.2'));
    expect(await call('GET', '/api/nodes', newToken('session'))).toEqual({
      status: 503,
      json: { error: { code: 'controller_unreachable', message: 'no answer from 10.0.0.2', retryAfterS: 3 } },
    });
  });

  it('takes bodies up to 1 MiB', async () => {
    const body = { x: 'y'.repeat(1024 * 1024) };
    expect((await call('POST', '/api/deployments', newToken('session'), body)).status).toBe(413);
  });
});

it('tells its own health, with no secret in it', async () => {
  status.connected = false;
  status.trouble = { code: 'controller_unreachable', message: 'no answer' };
  const response = await fetch(`${forwarder.apiAddress}/healthz`);
  expect(await response.json()).toEqual({
    status: 'ok',
    role: 'worker',
    connected: false,
    controller: 'den',
    trouble: status.trouble,
    engines: 1,
  });
});
