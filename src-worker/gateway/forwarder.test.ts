import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import {
  answer,
  chunk,
  eventStreamHead,
  getText,
  parseAnswer,
  postText,
  rawClient,
  rawExchange,
  recordingLogger,
  startUpstream,
  type ScriptedUpstream,
  type UpstreamRequest,
} from '../../src-main/nodejs/http/fixtures.ts';
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
  forwarder = await createForwarder({
    listen: { host: '127.0.0.1', port: 0 },
    dialGateway: (signal) => dial(signal),
    status: () => status,
    logger: recordingLogger(),
  });
  port = Number(new URL(forwarder.apiAddress).port);
});
afterEach(async () => {
  await forwarder.close();
  await controller.close();
});

const event = (text: string): string =>
  chunk(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`);
const done = `${chunk('data: [DONE]\n\n')}0\r\n\r\n`;

describe('/v1', () => {
  it("goes to the controller as it came, without the caller's credentials", async () => {
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

it("sends /api to the controller's own machine", async () => {
  const response = await fetch(`${forwarder.apiAddress}/api/nodes`);
  expect(response.status).toBe(404);
  expect(await response.json()).toEqual({
    error: {
      code: 'route_not_found',
      message: 'This machine is a worker: run this command on the controller, den.',
    },
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
