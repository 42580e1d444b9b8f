import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAuthority, createLeaf } from '../access/certificates.ts';
import { readBody } from './body.ts';
import {
  everybody,
  getText,
  parseAnswer,
  rawClient,
  rawExchange,
  recordingLogger,
  within,
} from './fixtures.ts';
import { startHttpServer, type HttpServer, type HttpServerOptions } from './http-server.ts';
import { coveyShape, respondJson } from './respond.ts';

/** What came through to a handler. */
let reached: string[];
let servers: HttpServer[];
beforeEach(() => {
  reached = [];
  servers = [];
});
afterEach(async () => {
  for (const server of servers) await server.close();
});

async function start(options: Partial<HttpServerOptions> = {}): Promise<number> {
  const server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    authenticate: everybody,
    logger: recordingLogger(),
    groups: [
      {
        prefix: '/api',
        errorShape: coveyShape,
        routes: [
          {
            method: 'POST',
            path: '/api/size',
            access: 'public',
            async handle({ req, res }) {
              const pieces = await readBody(req, res, { limitBytes: 1_000_000 });
              reached.push('size');
              respondJson(res, 200, { bytes: Buffer.concat(pieces).length });
            },
          },
          {
            method: 'GET',
            path: '/api/secret',
            access: 'public',
            handle({ res }) {
              reached.push('secret');
              respondJson(res, 200, { secret: true });
            },
          },
        ],
      },
    ],
    ...options,
  });
  servers.push(server);
  return server.port;
}

/** `HOST` becomes the right header; `SECOND` a whole second request, which must never be answered. */
function wire(text: string, port: number): string {
  const second = `GET /api/secret HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
  return text
    .replace(/^POST(?=\r)/, `POST /api/size HTTP/1.1\r\nHOST\r\nContent-Type: application/json`)
    .replace(/^GET(?=[\r\n])/, 'GET /api/secret HTTP/1.1')
    .replaceAll('HOST', `Host: 127.0.0.1:${port}`)
    .replaceAll('SECOND', second);
}

describe('bytes that two programs could read in two ways', () => {
  it.each([
    ['length and coding', 'POST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nSECOND'],
    ['coding and length', 'POST\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nSECOND'],
    ['two lengths', 'POST\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\nSECOND'],
    ['the same length twice', 'POST\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab'],
    ['a list of lengths', 'POST\r\nContent-Length: 2, 2\r\n\r\nab'],
    ['a signed length', 'POST\r\nContent-Length: +2\r\n\r\nab'],
    ['a hexadecimal length', 'POST\r\nContent-Length: 0x2\r\n\r\nab'],
    ['an endless length', 'POST\r\nContent-Length: 99999999999999999999\r\n\r\nab'],
    ['no length', 'POST\r\nContent-Length:\r\n\r\nSECOND'],
    [
      'two codings',
      'POST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nSECOND',
    ],
    ['a coding twice', 'POST\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\nSECOND'],
    ['a coding before chunked', 'POST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nSECOND'],
    ['an unknown coding', 'POST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nSECOND'],
    ['a coding behind a tab', 'POST\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\nSECOND'],
    ['a space before the colon', 'POST\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nSECOND'],
    ['a folded header', 'GET\r\nHOST\r\nX: a\r\n b\r\n\r\n'],
    ['a folded coding', 'POST\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\nSECOND'],
    ['a header that begins folded', 'GET\r\n X: y\r\nHOST\r\n\r\n'],
    ['lines that end in LF', 'GET\nHOST\n\n'],
    ['one line that ends in LF', 'GET\r\nHOST\nX: y\r\n\r\n'],
    ['a CR in a value', 'GET\r\nHOST\r\nX: a\rb\r\n\r\n'],
    ['a NUL in a value', 'GET\r\nHOST\r\nX: a\0b\r\n\r\n'],
    ['a header without colon', 'GET\r\nHOST\r\nBroken\r\n\r\n'],
    ['a header without name', 'GET\r\nHOST\r\n: x\r\n\r\n'],
    ['LF in a chunk extension', 'POST\r\nTransfer-Encoding: chunked\r\n\r\n2;x\nyy\r\nab\r\n0\r\n\r\n'],
    ['chunks that end in LF', 'POST\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n'],
    ['a chunk longer than it says', 'POST\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\nSECOND'],
    ['a chunk of negative size', 'POST\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n'],
    ['a chunk of endless size', 'POST\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nab'],
    [
      'framing in a trailer',
      'POST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 50\r\n\r\nSECOND',
    ],
    ['HTTP/2.0 in the form of 1.1', 'GET /api/secret HTTP/2.0\r\nHOST\r\n\r\n'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a target with a host', 'GET http://127.0.0.1/api/secret HTTP/1.1\r\nHOST\r\n\r\n'],
    ['a target with a space', 'GET /api/secret x HTTP/1.1\r\nHOST\r\n\r\n'],
    ['an upgrade to a WebSocket', 'GET\r\nHOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nSECOND'],
    ['a TLS client', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ])('%s: refused, the connection closed, nothing reached', async (_name, text) => {
    const port = await start();
    const answer = await rawExchange(port, Buffer.from(wire(text, port), 'latin1'));
    expect(answer).toMatch(/^HTTP\/1\.1 400 .*connection: close/is);
    expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
    expect(reached).toEqual([]);
  });

  it('CONNECT is closed without a word', async () => {
    const port = await start();
    expect(await rawExchange(port, `CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)).toBe(
      '',
    );
  });

  it('a body of GET is a body, not the next request', async () => {
    const port = await start();
    const second = wire('SECOND', port);
    const text = wire(
      `GET\r\nHOST\r\nContent-Length: ${second.length}\r\n\r\n${second}`.replace(second, ''),
      port,
    );
    const client = await rawClient(port);
    client.send(text + second);
    await client.until('{"secret":true}');
    client.send(getText(port, '/api/secret'));
    await client.ended();
    expect(reached.length).toBeLessThanOrEqual(2);
    expect(client.text().match(/HTTP\/1\.1 200/g)?.length).toBe(reached.length);
    client.close();
  });

  it('an offer of HTTP/2 is ignored, as its RFC has it', async () => {
    const port = await start();
    const offer = ['Connection: Upgrade, HTTP2-Settings, close', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'];
    expect(parseAnswer(await rawExchange(port, getText(port, '/api/secret', offer))).status).toBe(200);
  });
});

describe('too much', () => {
  it('headers above 16 KiB, or more than 100: 431', async () => {
    const port = await start();
    for (const headers of [[`X: ${'y'.repeat(20_000)}`], Array<string>(150).fill('a: b')]) {
      const answer = await rawExchange(port, getText(port, '/api/secret', headers));
      expect(answer).toMatch(/^HTTP\/1\.1 431 .*"headers_too_large"/s);
    }
    // Node drops what is beyond its own limit in silence: a second Host there must not pass.
    const late = [...Array<string>(3_000).fill('a:'), 'Host: evil.example'];
    expect(await rawExchange(port, getText(port, '/api/secret', late))).toMatch(/^HTTP\/1\.1 431/);
    expect(reached).toEqual([]);
  });

  it('a target above the limit of headers: 431', async () => {
    const port = await start();
    const text = getText(port, `/api/secret?${'x'.repeat(20_000)}`);
    expect(await rawExchange(port, text)).toMatch(/^HTTP\/1\.1 431/);
  });
});

describe('too slow', () => {
  const limits = { headersMs: 300, requestMs: 600, checkMs: 50 };

  it.each([
    ['says nothing', ''],
    ['stops in its headers', 'GET /api/secret HTTP/1.1\r\nHost: '],
    ['stops in its body', 'POST\r\nContent-Length: 50\r\n\r\na'],
    ['stops in a chunk', 'POST\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab'],
  ])('who %s is told and closed', async (_name, text) => {
    const port = await start({ limits });
    const answer = await rawExchange(port, wire(text, port));
    expect(answer).toMatch(/^HTTP\/1\.1 408 .*"request_timeout"/s);
    expect(reached).toEqual([]);
  });

  it.each([
    ['headers', 'GET\r\nHOST\r\nX: ', 'y'],
    ['a body', 'POST\r\nContent-Length: 5000\r\n\r\n', 'z'],
  ])('who sends %s byte by byte is closed in time all the same', async (_name, head, byte) => {
    const port = await start({ limits });
    const client = await rawClient(port);
    client.send(wire(head, port));
    const startedAt = performance.now();
    const drip = setInterval(() => client.send(byte), 20);
    try {
      await client.ended();
    } finally {
      clearInterval(drip);
    }
    expect(performance.now() - startedAt).toBeLessThan(3_000);
    expect(reached).toEqual([]);
  });

  it('hundreds of slow ones do not keep one that is quick', async () => {
    const port = await start({ limits: { ...limits, headersMs: 3_000, requestMs: 3_000 } });
    const slow = await Promise.all(Array.from({ length: 300 }, () => rawClient(port)));
    for (const client of slow) client.send('GET /api/secret HTTP/1.1\r\nHost: ');
    const answer = await within('an answer', rawExchange(port, getText(port, '/api/secret')), 1_500);
    expect(parseAnswer(answer).status).toBe(200);
    slow.forEach((client) => client.close());
  });
});

describe('on the LAN', () => {
  const names = { hosts: ['desk.local'], addresses: [] };
  async function startLan(options: Partial<HttpServerOptions> = {}) {
    const authority = await createAuthority('desk', Date.now());
    const certificate = await createLeaf(authority, names, Date.now());
    const port = await start({
      listen: { lan: { port: 0, certificate, names: () => ['desk.local', '127.0.0.1'] } },
      ...options,
    });
    return { port, authority };
  }

  async function ask(port: number, ca: string, text: string, servername = 'desk.local'): Promise<string> {
    const socket = connectTls({ host: '127.0.0.1', port, ca, servername });
    let answer = '';
    socket.on('data', (piece: Buffer) => (answer += piece.toString('latin1')));
    socket.on('error', () => undefined);
    await within('TLS', once(socket, 'secureConnect'));
    socket.write(text);
    await within('the end', once(socket, 'close'));
    return answer;
  }

  it('speaks TLS with a certificate of our authority, and nothing in clear', async () => {
    const { port, authority } = await startLan();
    const text = `GET /api/secret HTTP/1.1\r\nHost: desk.local:${port}\r\nConnection: close\r\n\r\n`;
    expect(parseAnswer(await ask(port, authority.cert, text)).status).toBe(200);
    expect(await rawExchange(port, text)).toBe('');
    const stranger = await createAuthority('else', Date.now());
    await expect(ask(port, stranger.cert, text)).rejects.toThrow('self-signed certificate');
    expect(reached).toEqual(['secret']);
  });

  it('answers to its names alone, and to pages of those by https alone', async () => {
    const { port, authority } = await startLan();
    const get = async (host: string, origin?: string): Promise<number> => {
      const lines = [`Host: ${host}`, ...(origin === undefined ? [] : [`Origin: ${origin}`])];
      const text = `GET /api/secret HTTP/1.1\r\n${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`;
      return parseAnswer(await ask(port, authority.cert, text)).status;
    };
    expect(await get('evil.example')).toBe(403);
    expect(await get('desk.local')).toBe(403);
    expect(await get(`desk.local:${port}`, `http://desk.local:${port}`)).toBe(403);
    expect(await get(`desk.local:${port}`, 'https://evil.example')).toBe(403);
    expect(await get(`desk.local:${port}`, `https://desk.local:${port}`)).toBe(200);
  });

  it('bounds the connections of one address and gives them back', async () => {
    const { port, authority } = await startLan({ limits: { connectionsPerAddress: 5, handshakeMs: 5_000 } });
    const idle = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const socket = connect(port, '127.0.0.1');
        socket.on('error', () => undefined);
        await once(socket, 'connect');
        return socket;
      }),
    );
    const sixth = connect(port, '127.0.0.1');
    sixth.on('error', () => undefined);
    await within('the sixth to be closed', once(sixth, 'close'));
    idle.forEach((socket) => socket.destroy());
    const text = `GET /api/secret HTTP/1.1\r\nHost: desk.local:${port}\r\nConnection: close\r\n\r\n`;
    await expect.poll(() => ask(port, authority.cert, text).catch(() => '')).toContain('"secret":true');
  });

  it('does not wait for a handshake that does not come', async () => {
    const { port } = await startLan({ limits: { handshakeMs: 200 } });
    const silent = await rawClient(port);
    expect(await silent.ended()).toBe('');
    const half = await rawClient(port);
    half.send(Buffer.from('160301', 'hex'));
    expect(await half.ended()).toBe('');
  });

  it('takes another certificate without a restart', async () => {
    const { port } = await startLan();
    const authority = await createAuthority('other', Date.now());
    servers[0]?.setCertificate(await createLeaf(authority, names, Date.now()));
    const text = `GET /api/secret HTTP/1.1\r\nHost: desk.local:${port}\r\nConnection: close\r\n\r\n`;
    expect(parseAnswer(await ask(port, authority.cert, text)).status).toBe(200);
    const broken = { key: 'no', cert: 'no' };
    expect(() => servers[0]?.setCertificate(broken)).toThrow();
    expect(parseAnswer(await ask(port, authority.cert, text)).status).toBe(200);
  });
});
