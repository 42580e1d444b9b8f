import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { CoveyError } from '#shared/errors.ts';
import { readBody, readJson } from './body.ts';
import {
  everybody,
  getText,
  parseAnswer,
  postText,
  rawClient,
  rawExchange,
  recordingLogger,
} from './fixtures.ts';
import type { HttpCall } from './http-call.ts';
import { startHttpServer, type HttpServer } from './http-server.ts';
import { openAiShape, respondJson } from './respond.ts';
import type { RouteGroup } from './router.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const echoSchema = z.strictObject({ name: z.string(), count: z.number().int().min(1).optional() });

function groups(extra: RouteGroup['routes'] = []): RouteGroup[] {
  return [
    {
      prefix: '/v1',
      errorShape: openAiShape,
      routes: [
        {
          method: 'GET',
          path: '/v1/things',
          access: 'public',
          handle: ({ res }) => respondJson(res, 200, { things: [] }),
        },
        {
          method: 'POST',
          path: '/v1/size',
          access: 'public',
          async handle({ req, res }) {
            const pieces = await readBody(req, res, { limitBytes: 1_000_000 });
            respondJson(res, 200, { bytes: pieces.reduce((sum, piece) => sum + piece.length, 0) });
          },
        },
      ],
    },
    {
      prefix: '/api',
      errorShape: (error) => ({ error: error.toBody() }),
      routes: [
        {
          method: 'POST',
          path: '/api/echo',
          access: 'public',
          async handle({ req, res }) {
            respondJson(res, 200, await readJson(req, res, 1_000, echoSchema));
          },
        },
        {
          method: 'GET',
          path: '/api/nodes/:node/logs',
          access: 'public',
          handle: ({ res, params, query, via }) =>
            respondJson(res, 200, { params, query: Object.fromEntries(query), via }),
        },
        {
          method: 'DELETE',
          path: '/api/nodes/:node/logs',
          access: 'public',
          handle: ({ res }) => respondJson(res, 200, {}),
        },
        {
          method: 'GET',
          path: '/api/broken',
          access: 'public',
          handle() {
            throw new TypeError('secret of the inside');
          },
        },
        {
          method: 'GET',
          path: '/api/files/*path',
          access: 'public',
          handle: ({ res, params }) => respondJson(res, 200, params),
        },
        ...extra,
      ],
    },
  ];
}

async function start(extra: RouteGroup['routes'] = []): Promise<HttpServer & { lines: string[] }> {
  const logger = recordingLogger();
  const server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: groups(extra),
    authenticate: everybody,
    logger,
  });
  closers.push(() => server.close());
  return { ...server, lines: logger.lines };
}

function errorOf(text: string): { status: number; error: Record<string, unknown> } {
  const { status, body } = parseAnswer(text);
  return { status, error: (JSON.parse(body) as { error: Record<string, unknown> }).error };
}

describe('callers', () => {
  it.each(['127.0.0.1', 'localhost', '[::1]', 'LocalHost'])('answers as %s', async (name) => {
    const { port } = await start();
    const answer = await rawExchange(
      port,
      `GET /v1/things HTTP/1.1\r\nHost: ${name}:${port}\r\nConnection: close\r\n\r\n`,
    );
    expect(parseAnswer(answer).status).toBe(200);
  });

  it.each([
    'evil.example',
    'evil.example:PORT',
    '127.0.0.1',
    'localhost:1',
    'localhost.evil.example:PORT',
    '127.0.0.1.nip.io:PORT',
    '192.168.1.5:PORT',
    '0.0.0.0:PORT',
    'user@localhost:PORT',
    'localhost:PORT, evil.example',
  ])('refuses the Host %s and says what it answers to', async (host) => {
    const { port } = await start();
    const named = host.replace('PORT', String(port));
    const answer = await rawExchange(
      port,
      `GET /v1/things HTTP/1.1\r\nHost: ${named}\r\nConnection: close\r\n\r\n`,
    );
    const { status, error } = errorOf(answer);
    expect([status, error['code'], error['param']]).toEqual([403, 'host_not_allowed', 'Host']);
    expect(error['message']).toContain(`localhost:${port}`);
  });

  it('refuses a request with two Host headers or none', async () => {
    const { port } = await start();
    const two = `GET /v1/things HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nHost: evil.example\r\nConnection: close\r\n\r\n`;
    expect(parseAnswer(await rawExchange(port, two)).status).toBe(400);
    expect(parseAnswer(await rawExchange(port, 'GET /v1/things HTTP/1.1\r\n\r\n')).status).toBe(400);
    expect(parseAnswer(await rawExchange(port, 'GET /v1/things HTTP/1.0\r\n\r\n')).status).toBe(403);
  });

  it.each([
    ['Origin: https://evil.example', 403],
    ['Origin: null', 403],
    ['Origin: http://localhost:3000', 403],
    ['Origin: https://localhost:PORT', 403],
    ['Origin: http://localhost:PORT', 200],
    ['Origin: http://127.0.0.1:PORT', 200],
    ['Sec-Fetch-Site: cross-site', 403],
    ['Sec-Fetch-Site: same-site', 403],
    ['Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate', 200],
    ['Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document', 200],
    ['Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe', 403],
    ['Sec-Fetch-Site: same-origin', 200],
    ['Sec-Fetch-Site: none', 200],
  ])('answers a page with %s by %i', async (header, status) => {
    const { port } = await start();
    const answer = await rawExchange(
      port,
      getText(port, '/v1/things', [header.replace('PORT', String(port)), 'Connection: close']),
    );
    expect(parseAnswer(answer).status).toBe(status);
    expect(answer.toLowerCase()).not.toContain('access-control-');
  });

  it('answers on IPv6 loopback too, and on no other address', async () => {
    const { port } = await start();
    const own = Object.values(networkInterfaces()).flat();
    if (own.some((entry) => entry?.address === '::1')) {
      const response = await fetch(`http://[::1]:${port}/v1/things`);
      expect(response.status).toBe(200);
    }
    for (const entry of own) {
      if (entry && !entry.internal && entry.family === 'IPv4') {
        await expect(fetch(`http://${entry.address}:${port}/v1/things`)).rejects.toThrow();
      }
    }
  });
});

describe('routes', () => {
  it('decodes parameters and the query', async () => {
    const { port } = await start();
    const response = await fetch(`http://127.0.0.1:${port}/api/nodes/a%2Fb%20c/logs?limit=5&x=%C3%A4`);
    expect(await response.json()).toEqual({
      params: { node: 'a/b c' },
      query: { limit: '5', x: 'ä' },
      via: 'loopback',
    });
    const rest = await fetch(`http://127.0.0.1:${port}/api/files/a/b%2Fc`);
    expect(await rest.json()).toEqual({ path: 'a/b/c' });
  });

  it.each([
    ['GET', '/v1/nothing', 404, 'route_not_found', 'openai'],
    ['GET', '/api/nothing', 404, 'route_not_found', 'covey'],
    ['GET', '/', 404, 'route_not_found', 'covey'],
    ['GET', '/v1x', 404, 'route_not_found', 'covey'],
    ['GET', '/api/files/', 404, 'route_not_found', 'covey'],
    ['GET', '/api/nodes/%ff/logs', 400, 'invalid_request', 'covey'],
    ['POST', '/v1/things', 405, 'method_not_allowed', 'openai'],
    ['OPTIONS', '/v1/things', 405, 'method_not_allowed', 'openai'],
    ['PUT', '/api/nodes/x/logs', 405, 'method_not_allowed', 'covey'],
    ['GET', 'http://evil.example/v1/things', 400, 'invalid_request', 'covey'],
    ['OPTIONS', '*', 400, 'invalid_request', 'covey'],
  ])('answers %s %s by %i %s in the shape of %s', async (method, path, status, code, shape) => {
    const { port } = await start();
    const text = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`;
    const answer = await rawExchange(port, text);
    const { status: got, error } = errorOf(answer);
    expect([got, error['code']]).toEqual([status, code]);
    expect('param' in error).toBe(shape === 'openai');
    if (status === 405) expect(answer).toMatch(/^allow: (GET, HEAD|GET, HEAD, DELETE)$/im);
  });

  it('answers HEAD as GET without the body', async () => {
    const { port } = await start();
    const client = await rawClient(port);
    client.send(`HEAD /v1/things HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
    client.send(getText(port, '/v1/things'));
    const text = await client.ended();
    expect(text.split('{"things":[]}')).toHaveLength(2);
    expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(2);
  });

  it('keeps what went wrong inside to itself', async () => {
    const { port, lines } = await start();
    const { status, error } = errorOf(await rawExchange(port, getText(port, '/api/broken')));
    expect([status, error['code']]).toEqual([500, 'internal_error']);
    expect(JSON.stringify(error)).not.toMatch(/secret|\.ts|at /);
    expect(lines.join()).toContain('secret of the inside');
  });
});

describe('bodies', () => {
  it.each([
    ['{"name":"a","count":3}', 200, undefined, undefined],
    ['{"name":"a","count":0}', 400, 'invalid_request', 'count'],
    ['{"count":1}', 400, 'invalid_request', 'name'],
    ['{"name":"a","colour":"red"}', 400, 'invalid_request', 'colour'],
    ['[]', 400, 'invalid_request', undefined],
    ['{"name"', 400, 'invalid_json', undefined],
    ['', 400, 'invalid_request', 'name'],
  ])('answers %s by %s %s %s', async (body, status, code, field) => {
    const { port } = await start();
    const answer = await rawExchange(port, postText(port, '/api/echo', body, ['Connection: close']));
    expect(parseAnswer(answer).status).toBe(status);
    if (status === 200) return;
    const { error } = errorOf(answer);
    expect([error['code'], error['field']]).toEqual([code, field]);
    if (field !== undefined) expect(error['message']).toContain(field);
  });

  it('refuses a body that a form could send', async () => {
    const { port } = await start();
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      undefined,
    ]) {
      const response = await fetch(`http://127.0.0.1:${port}/api/echo`, {
        method: 'POST',
        body: Buffer.from('{"name":"a"}'),
        ...(type === undefined ? {} : { headers: { 'content-type': type } }),
      });
      expect(response.status).toBe(415);
      expect(await response.text()).toContain('Content-Type: application/json');
    }
  });

  it('refuses an announced body that is too large before it is sent', async () => {
    const { port } = await start();
    const client = await rawClient(port);
    client.send(
      `POST /v1/size HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nContent-Length: 1000001\r\n\r\n`,
    );
    const { status, error } = errorOf(await client.until(/"code":"body_too_large"\}\}/));
    expect([status, error['type']]).toEqual([413, 'invalid_request_error']);
    client.close();
  });

  it('refuses a body that grows too large, and its sender gets to read why', async () => {
    const { port } = await start();
    const client = await rawClient(port);
    client.send(
      `POST /v1/size HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const piece = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65_536, 'x'), Buffer.from('\r\n')]);
    for (let sent = 0; sent < 64; sent++) client.send(piece);
    client.send('0\r\n\r\n');
    expect(errorOf(await client.ended()).status).toBe(413);
  });

  it('sends 100 Continue only for a body that it wants', async () => {
    const { port } = await start();
    const head = (length: number): string =>
      `POST /v1/size HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`;
    const wanted = await rawClient(port);
    wanted.send(head(4));
    expect(await wanted.until('\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    wanted.send('1234');
    expect(await wanted.ended()).toContain('{"bytes":4}');
    const unwanted = await rawExchange(port, head(1_000_001));
    expect(unwanted).toMatch(/^HTTP\/1.1 413/);
  });

  it.each([
    ['both a length and a coding', 'Content-Length: 4\r\nTransfer-Encoding: chunked'],
    ['two lengths', 'Content-Length: 4\r\nContent-Length: 5'],
    ['an unknown coding', 'Transfer-Encoding: chunked, identity'],
    ['a negative length', 'Content-Length: -4'],
    ['a space before the colon', 'Content-Length : 4'],
  ])('refuses %s and closes', async (_name, headers) => {
    const { port } = await start();
    const answer = await rawExchange(
      port,
      `POST /v1/size HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n${headers}\r\n\r\n` +
        `0\r\n\r\nGET /v1/things HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1.1 400/);
    expect(answer.match(/HTTP\/1.1 \d/g)).toHaveLength(1);
  });

  it('answers what is no HTTP, and headers without end, by 400', async () => {
    const { port } = await start();
    expect(await rawExchange(port, '\x16\x03\x01\x02\x00\x01')).toMatch(/^HTTP\/1.1 400/);
    const long = getText(port, '/v1/things', [`X: ${'y'.repeat(20_000)}`]);
    expect(await rawExchange(port, long)).toContain('16 KiB');
  });

  it('cuts off a client that does not finish its headers, after telling it', async () => {
    const { port } = await start();
    const client = await rawClient(port);
    client.send('GET /v1/things HTTP/1.1\r\nHost: ');
    const text = await client.until('408', 15_000);
    expect(text).toContain('request_timeout');
  });

  it('one bad client does not touch another', async () => {
    const { port } = await start();
    const slow = await rawClient(port);
    slow.send('POST /v1/size HTTP/1.1\r\nHost: ');
    const gone = await rawClient(port);
    gone.send(postText(port, '/v1/size', 'x'.repeat(10)).slice(0, -5));
    gone.socket.resetAndDestroy();
    expect((await fetch(`http://127.0.0.1:${port}/v1/things`)).status).toBe(200);
    slow.close();
  });
});

describe('closing', () => {
  it('lets a running request finish, ends streams, and frees the port', async () => {
    const steps: string[] = [];
    let finish = (): void => undefined;
    const server = await start([
      {
        method: 'GET',
        path: '/api/slow',
        access: 'public',
        async handle({ res }) {
          await new Promise<void>((resolve) => (finish = resolve));
          respondJson(res, 200, { slow: true });
        },
      },
      {
        method: 'GET',
        path: '/api/stream',
        access: 'public',
        handle({ res, stopping }: HttpCall) {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          res.write(': hello\n\n');
          stopping.addEventListener('abort', () => {
            steps.push('stream');
            res.end();
          });
        },
      },
    ]);
    const stream = await rawClient(server.port);
    stream.send(getText(server.port, '/api/stream'));
    await stream.until('hello');
    const slow = rawExchange(server.port, getText(server.port, '/api/slow', []));
    await expect.poll(() => finish.length).toBe(1);
    const closed = server.close().then(() => steps.push('closed'));
    expect(parseAnswer(await stream.ended()).complete).toBe(true);
    steps.push('finish');
    finish();
    expect(await slow).toContain('{"slow":true}');
    await closed;
    expect(steps).toEqual(['stream', 'finish', 'closed']);
    await expect(rawClient(server.port)).rejects.toThrow('ECONNREFUSED');
  });

  it('ends with a reason what does not finish', async () => {
    const server = await start([
      {
        method: 'GET',
        path: '/api/endless',
        access: 'public',
        handle: ({ closing }) =>
          new Promise((_resolve, reject) => {
            closing.addEventListener('abort', () => reject(CoveyError.from(closing.reason)));
          }),
      },
    ]);
    const client = await rawClient(server.port);
    client.send(getText(server.port, '/api/endless'));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const text = client.ended();
    await server.close();
    expect(errorOf(await text)).toMatchObject({ status: 503, error: { code: 'shutting_down' } });
  });
});

describe('ports', () => {
  it('names the owner of a port that is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    closers.push(() => new Promise((resolve) => other.close(resolve)));
    const { port } = other.address() as AddressInfo;
    const attempt = startHttpServer({
      listen: { loopback: { host: '127.0.0.1', port } },
      groups: groups(),
      authenticate: everybody,
      logger: recordingLogger(),
    });
    const owner = process.platform === 'linux' ? `pid ${process.pid}` : 'another program';
    await expect(attempt).rejects.toMatchObject({
      code: 'port_in_use',
      message: expect.stringMatching(new RegExp(`Port ${port} .*${owner}`)) as string,
    });
  });

  it('serves this machine only', async () => {
    for (const host of ['0.0.0.0', '::', '192.168.1.5', 'example.com']) {
      const attempt = startHttpServer({
        listen: { loopback: { host, port: 0 } },
        groups: groups(),
        authenticate: everybody,
        logger: recordingLogger(),
      });
      await expect(attempt).rejects.toMatchObject({ code: 'config_invalid', details: { field: 'api' } });
    }
  });

  it.skipIf(process.platform === 'win32')(
    'listens on a local socket that only its owner may use',
    async () => {
      const directory = await mkdtemp(join(tmpdir(), 'covey-http-'));
      closers.push(() => rm(directory, { recursive: true }));
      const path = join(directory, 'gateway.sock');
      // What a process that was killed leaves behind.
      await writeFile(path, '');
      const options = {
        listen: { socketPath: path },
        groups: groups(),
        authenticate: everybody,
        logger: recordingLogger(),
      };
      const server = await startHttpServer(options);
      expect((await stat(path)).mode & 0o777).toBe(0o600);
      const answer = await rawExchange(
        path,
        'GET /api/nodes/x/logs HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n',
      );
      expect(answer).toContain('"via":"member"');
      await expect(startHttpServer(options)).rejects.toMatchObject({ code: 'port_in_use' });
      await server.close();
      await expect(stat(path)).rejects.toThrow('ENOENT');
    },
  );
});
