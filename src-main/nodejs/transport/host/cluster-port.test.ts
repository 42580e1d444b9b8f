import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as tlsConnect } from 'node:tls';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Member } from '#shared/host/transport.ts';
import { ALPN, LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import type { Identity } from '../../identity/identity.ts';
import {
  listenEcho,
  makeIdentity,
  makeToken,
  observeTls,
  stageId,
  startHost,
  until,
  within,
  type LoopbackServer,
  type TestHost,
  hasClosed,
} from '../fixtures.ts';
import { encodeFrame } from '../frames.ts';

let controllerKey: Identity;
let workerKey: Identity;
let strangerKey: Identity;
let removedKey: Identity;

beforeAll(async () => {
  [controllerKey, workerKey, strangerKey, removedKey] = await Promise.all([
    makeIdentity(),
    makeIdentity(),
    makeIdentity(),
    makeIdentity(),
  ]);
});

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const step of cleanup.splice(0).reverse()) await step();
});

async function host(...parameters: Parameters<typeof startHost>): Promise<TestHost> {
  const started = await startHost(...parameters);
  cleanup.push(() => started.host.close());
  return started;
}

async function echo(): Promise<LoopbackServer> {
  const server = await listenEcho();
  cleanup.push(() => server.close());
  return server;
}

const as = (identity: Identity, alpn: string) => ({
  key: identity.keyPem,
  cert: identity.certPem,
  ALPNProtocols: [alpn],
});
const removed = (): Member => ({
  nodeId: removedKey.nodeId,
  role: 'worker',
  name: 'removed',
  refusal: { code: 'node_removed', message: 'This machine was removed.' },
});
const worker = (): Member => ({ nodeId: workerKey.nodeId, role: 'worker', name: 'w' });
const preamble = (value: object) => encodeFrame(JSON.stringify({ protocol: PROTOCOL_VERSION, ...value }));
const answerOf = (bytes: Buffer): unknown => JSON.parse(bytes.subarray(4).toString());

describe('the cluster port, to strangers', () => {
  let port: number;
  let node: TestHost;
  beforeEach(async () => {
    node = await host(controllerKey, { role: 'controller', members: [worker()] });
    port = node.address.port;
  });

  it.each([ALPN.session, ALPN.tunnel, ALPN.http])('sends no byte to an unknown key on %s', async (alpn) => {
    const hello = alpn === ALPN.session ? 'GET /session HTTP/1.1\r\n\r\n' : preamble({ target: 'gateway' });
    const seen = await observeTls(port, as(strangerKey, alpn), hello);
    expect(seen.bytes).toHaveLength(0);
    expect(seen.error).not.toBe('still open');
    await until(() => node.audits().length > 0, 'an audit');
    expect(node.audits()[0]).toMatchObject({ kind: 'peer_unknown', peerId: strangerKey.nodeId });
  });

  it.each(Object.values(ALPN))('sends no byte to a peer without certificate on %s', async (alpn) => {
    const seen = await observeTls(port, { ALPNProtocols: [alpn] }, preamble({ target: 'gateway' }));
    expect(seen.bytes).toHaveLength(0);
    expect(seen.error).not.toBe('still open');
  });

  it('fails the handshake of foreign protocols, and sends no byte to a peer that names none', async () => {
    const http = await observeTls(port, as(workerKey, 'http/1.1'), 'GET / HTTP/1.1\r\n\r\n');
    expect(http).toMatchObject({
      connected: false,
      error: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
    });
    const { key, cert } = as(workerKey, '');
    const none = await observeTls(port, { key, cert }, 'GET / HTTP/1.1\r\n\r\n');
    expect(none.bytes).toHaveLength(0);
    expect(none.error).not.toBe('still open');
  });

  it('speaks nothing older than TLS 1.3', async () => {
    const seen = await observeTls(port, { ...as(workerKey, ALPN.tunnel), maxVersion: 'TLSv1.2' });
    expect(seen).toMatchObject({ connected: false, error: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' });
  });

  it('closes on plain HTTP', async () => {
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk)).on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await within(hasClosed(socket), 3_000, 'the end');
    // At most a TLS alert (record type 21), never an application byte.
    const bytes = Buffer.concat(chunks);
    expect(bytes.length === 0 || bytes[0] === 21).toBe(true);
  });

  it('resumes no TLS session: every connection proves its key', async () => {
    const tickets: Buffer[] = [];
    const first = tlsConnect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(workerKey, ALPN.tunnel),
    });
    first.on('session', (ticket: Buffer) => tickets.push(ticket));
    await once(first, 'secureConnect');
    await new Promise((resolve) => setTimeout(resolve, 50));
    first.destroy();
    const second = tlsConnect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(workerKey, ALPN.tunnel),
      ...(tickets[0] ? { session: tickets[0] } : {}),
    });
    await once(second, 'secureConnect');
    expect(second.isSessionReused()).toBe(false);
    second.destroy();
  });

  it('closes at TCP on an address that keeps knocking without a key of a member', async () => {
    const { key, cert } = as(strangerKey, '');
    let handshakes = 0;
    for (; handshakes < 200; handshakes += 1) {
      const seen = await observeTls(port, { key, cert, ALPNProtocols: [ALPN.tunnel] });
      expect(seen.bytes).toHaveLength(0);
      if (!seen.connected) break;
    }
    expect(handshakes).toBeGreaterThanOrEqual(64);
    expect(handshakes).toBeLessThan(200);
    await until(() => node.audits().some(({ detail }) => detail.includes('too many')), 'the audit');
    // Both kinds of facts are told, and neither floods the log.
    expect(node.audits().length).toBeLessThanOrEqual(22);
  });
});

describe('refused members', () => {
  it('get one frame with the reason on a session', async () => {
    const node = await host(controllerKey, { role: 'controller', members: [removed()] });
    const socket = tlsConnect({
      port: node.address.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(removedKey, ALPN.session),
    });
    const webSocket = new WebSocket('ws://covey/session', { createConnection: () => socket });
    const texts: string[] = [];
    webSocket.on('message', (data: Buffer) => texts.push(data.toString()));
    webSocket.on('error', () => undefined);
    await within(once(webSocket, 'close'), 3_000, 'the end');
    expect(texts.map((text) => JSON.parse(text) as unknown)).toEqual([
      { type: 'refused', error: { code: 'node_removed', message: 'This machine was removed.' } },
    ]);
    expect(node.events.some((event) => event.type === 'session')).toBe(false);
    expect(node.audits()[0]).toMatchObject({ kind: 'peer_refused', peerId: removedKey.nodeId });
  });

  it.each([ALPN.tunnel, ALPN.http])('get one answer with the reason on %s', async (alpn) => {
    const node = await host(workerKey, { members: [removed()] });
    const seen = await observeTls(node.address.port, as(removedKey, alpn), preamble({ target: 'gateway' }));
    expect(answerOf(seen.bytes)).toEqual({
      ok: false,
      error: { code: 'node_removed', message: 'This machine was removed.' },
    });
  });
});

describe('a session', () => {
  it('of a peer that does not read is cut', async () => {
    const node = await host(controllerKey, { role: 'controller', members: [worker()] });
    const socket = tlsConnect({
      port: node.address.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(workerKey, ALPN.session),
    });
    const webSocket = new WebSocket('ws://covey/session', { createConnection: () => socket });
    webSocket.on('error', () => undefined);
    cleanup.push(() => webSocket.terminate());
    await once(webSocket, 'open');
    webSocket.pause();
    const { session } = await node.event('session');
    const text = 'x'.repeat(512 * 1024);
    const sent = Math.ceil((LIMITS.sessionBufferBytes * 4) / text.length);
    for (let index = 0; index < sent; index += 1) {
      node.host.handle({ type: 'send', session, text });
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { error } = await node.event('session-closed');
    expect(error?.message).toContain('does not read');
  });

  it('waits while the main process has not taken what came', async () => {
    const node = await host(controllerKey, { role: 'controller', members: [worker()] });
    const socket = tlsConnect({
      port: node.address.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(workerKey, ALPN.session),
    });
    const webSocket = new WebSocket('ws://covey/session', { createConnection: () => socket });
    cleanup.push(() => webSocket.terminate());
    await once(webSocket, 'open');
    const { session } = await node.event('session');
    const text = 'x'.repeat(512 * 1024);
    const count = 64;
    for (let index = 0; index < count; index += 1) webSocket.send(text);
    const messages = () => node.events.filter((event) => event.type === 'message').length;
    await until(() => messages() >= 8, 'the first messages');
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(messages()).toBeLessThan(12);
    for (let taken = 0; taken < count;) {
      if (messages() === taken) await new Promise((resolve) => setTimeout(resolve, 5));
      while (taken < messages()) {
        taken += 1;
        node.host.handle({ type: 'taken', session, bytes: text.length });
      }
    }
    expect(messages()).toBe(count);
  });
});

describe('roles', () => {
  it('a worker offers neither sessions nor joins', async () => {
    const node = await host(workerKey, {
      members: [{ nodeId: controllerKey.nodeId, role: 'controller', name: 'c' }],
    });
    for (const alpn of [ALPN.session, ALPN.join]) {
      const seen = await observeTls(node.address.port, as(controllerKey, alpn));
      expect(seen).toMatchObject({ connected: false, error: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL' });
    }
  });

  it('a controller takes sessions of workers only', async () => {
    const node = await host(controllerKey, {
      role: 'controller',
      members: [{ nodeId: strangerKey.nodeId, role: 'controller', name: 'other' }],
    });
    const seen = await observeTls(
      node.address.port,
      as(strangerKey, ALPN.session),
      'GET /session HTTP/1.1\r\n\r\n',
    );
    expect(seen.bytes).toHaveLength(0);
    expect(node.events.some((event) => event.type === 'session')).toBe(false);
  });

  it('the gateway is there for workers, on http, where one was configured', async () => {
    const socketPath = await gatewaySocket();
    const members: Member[] = [worker(), { nodeId: strangerKey.nodeId, role: 'controller', name: 'x' }];
    const withGateway = await host(controllerKey, { role: 'controller', members, gatewaySocket: socketPath });
    const without = await host(controllerKey, { role: 'controller', members });
    const ask = async (node: TestHost, identity: Identity, alpn: string): Promise<Buffer> =>
      (await observeTls(node.address.port, as(identity, alpn), preamble({ target: 'gateway' }))).bytes;

    const served = await ask(withGateway, workerKey, ALPN.http);
    const length = served.readUInt32BE(0);
    expect(JSON.parse(served.subarray(4, 4 + length).toString())).toEqual({ ok: true });
    expect(served.subarray(4 + length).toString()).toBe('through the socket');
    for (const [node, identity, alpn] of [
      [withGateway, workerKey, ALPN.tunnel],
      [withGateway, strangerKey, ALPN.http],
      [without, workerKey, ALPN.http],
    ] as const) {
      expect(answerOf(await ask(node, identity, alpn))).toMatchObject({
        ok: false,
        error: { code: 'not_the_controller' },
      });
    }
  });
});

/** A gateway's socket where every connection is answered with a greeting. */
async function gatewaySocket(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'covey-'));
  const path =
    process.platform === 'win32' ? `\\\\.\\pipe\\covey-test-${process.pid}` : join(directory, 'gateway.sock');
  const server = createServer((socket) => socket.end('through the socket'));
  server.listen(path);
  await once(server, 'listening');
  cleanup.push(async () => {
    server.close();
    await rm(directory, { recursive: true, force: true });
  });
  return path;
}

describe('grants', () => {
  it('carries bytes for the right peer, and refuses every other use by name', async () => {
    const engine = await echo();
    const token = makeToken();
    const node = await host(controllerKey, {
      members: [worker(), { ...worker(), nodeId: strangerKey.nodeId }],
      grants: [
        {
          token,
          engineId: stageId,
          port: engine.port,
          peers: [workerKey.nodeId],
          maxStreams: 1,
          alpn: 'tunnel',
          ttlMs: 60_000,
        },
      ],
    });
    const { port } = node.address;
    const refusal = async (identity: Identity, alpn: string, value: object): Promise<unknown> =>
      (
        answerOf((await observeTls(port, as(identity, alpn), preamble(value))).bytes) as {
          error: { code: string };
        }
      ).error.code;

    expect(await refusal(strangerKey, ALPN.tunnel, { target: 'engine', grant: token })).toBe('grant_invalid');
    expect(await refusal(workerKey, ALPN.http, { target: 'engine', grant: token })).toBe('grant_invalid');
    expect(await refusal(workerKey, ALPN.tunnel, { target: 'engine', grant: makeToken() })).toBe(
      'grant_invalid',
    );
    expect(await refusal(workerKey, ALPN.tunnel, { target: 'engine', grant: 'short' })).toBe(
      'invalid_request',
    );
    expect(await refusal(workerKey, ALPN.tunnel, { target: 'engine', grant: token, protocol: 99 })).toBe(
      'protocol_version_mismatch',
    );
    expect(engine.accepted()).toBe(0);

    const socket = tlsConnect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(workerKey, ALPN.tunnel),
    });
    socket.on('error', () => undefined);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.write(Buffer.concat([preamble({ target: 'engine', grant: token }), Buffer.from('early')]));
    await until(() => Buffer.concat(chunks).toString().endsWith('early'), 'the echo');
    node.host.handle({ type: 'remove-grants', engineId: stageId });
    await within(hasClosed(socket), 2_000, 'the end of the stream');
    await until(() => engine.sockets.size === 0, 'the end of the engine connection');
    expect(await refusal(workerKey, ALPN.tunnel, { target: 'engine', grant: token })).toBe('grant_expired');
    expect(node.audits().filter(({ kind }) => kind === 'grant_refused').length).toBeGreaterThan(3);
  });

  it('ends the streams of a member that is gone', async () => {
    const engine = await echo();
    const token = makeToken();
    const node = await host(controllerKey, {
      members: [worker()],
      grants: [
        {
          token,
          engineId: stageId,
          port: engine.port,
          peers: [workerKey.nodeId],
          maxStreams: 1,
          alpn: 'http',
          ttlMs: 60_000,
        },
      ],
    });
    const seen = observeTls(
      node.address.port,
      as(workerKey, ALPN.http),
      preamble({ target: 'engine', grant: token }),
    );
    await until(() => engine.sockets.size === 1, 'the stream');
    node.host.handle({ type: 'members', members: [] });
    expect((await seen).error).not.toBe('still open');
    await until(() => engine.sockets.size === 0, 'the end of the engine connection');
  });

  it('says that the engine does not answer', async () => {
    const engine = await echo();
    await engine.close();
    cleanup.pop();
    const token = makeToken();
    const node = await host(controllerKey, {
      members: [worker()],
      grants: [
        {
          token,
          engineId: stageId,
          port: engine.port,
          peers: [workerKey.nodeId],
          maxStreams: 1,
          alpn: 'http',
          ttlMs: 60_000,
        },
      ],
    });
    const ask = () =>
      observeTls(node.address.port, as(workerKey, ALPN.http), preamble({ target: 'engine', grant: token }));
    // Twice: the first must have given its stream back.
    for (const seen of [await ask(), await ask()]) {
      expect(answerOf(seen.bytes)).toMatchObject({ ok: false, error: { code: 'engine_unreachable' } });
    }
  });

  it('drops a member that takes too long with its preamble, or sends one that is too big', async () => {
    const node = await host(controllerKey, { members: [worker()] });
    const { port } = node.address;
    const big = Buffer.alloc(4);
    big.writeUInt32BE(LIMITS.preambleBytes + 1);
    const seen = await observeTls(port, as(workerKey, ALPN.tunnel), big);
    expect(answerOf(seen.bytes)).toMatchObject({ ok: false, error: { code: 'invalid_request' } });

    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const socket = tlsConnect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...as(workerKey, ALPN.tunnel),
    });
    socket.on('error', () => undefined);
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => (bytes += chunk.length));
    await once(socket, 'secureConnect');
    socket.write(Buffer.from([0, 0]));
    await new Promise((resolve) => setImmediate(() => setImmediate(() => setImmediate(resolve))));
    const ended = once(socket, 'close');
    const started = performance.now();
    while (!socket.destroyed && performance.now() - started < 3_000) {
      vi.advanceTimersByTime(10_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await ended;
    expect(bytes).toBe(0);
  });
});

describe('joins', () => {
  it('pass frames on as they came, and say what is said', async () => {
    const node = await host(controllerKey, { role: 'controller' });
    const two = Buffer.concat([encodeFrame('{"a":1}'), encodeFrame('{"b":2}')]);
    const seen = observeTls(node.address.port, as(strangerKey, ALPN.join), two);
    const { session, peerId } = await node.event('join');
    expect(peerId).toBe(strangerKey.nodeId);
    await node.event('message', ({ text }) => text === '{"b":2}');
    node.host.handle({ type: 'send', session, text: '{"ok":true}' });
    node.host.handle({ type: 'close-session', session });
    expect(answerOf((await seen).bytes)).toEqual({ ok: true });
    expect((await node.event('session-closed')).error).toBeNull();
  });

  it('end when they have had their time, unless a person is waited for', async () => {
    const node = await host(controllerKey, { role: 'controller' });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const sockets = [1, 2].map(() => {
      const socket = tlsConnect({
        port: node.address.port,
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ...as(strangerKey, ALPN.join),
      });
      const chunks: Buffer[] = [];
      socket.on('error', () => undefined);
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.write(encodeFrame('{}'));
      cleanup.push(() => socket.destroy());
      return { socket, chunks };
    });
    const joins = (): number => node.events.filter(({ type }) => type === 'join').length;
    while (joins() < 2) await new Promise((resolve) => setImmediate(resolve));
    const held = await node.event('join');
    node.host.handle({ type: 'hold-join', session: held.session, deadlineMs: 60_000 });
    const ends = (): number[] =>
      node.events.flatMap((event) => (event.type === 'session-closed' ? [event.session] : []));
    vi.advanceTimersByTime(LIMITS.joinMs);
    while (ends().length < 1) await new Promise((resolve) => setImmediate(resolve));
    expect(ends()).not.toContain(held.session);
    const told = sockets.filter(({ chunks }) => chunks.length > 0);
    expect(told).toHaveLength(1);
    expect(answerOf(Buffer.concat(told[0]?.chunks ?? []))).toMatchObject({
      type: 'refused',
      error: { code: 'timeout' },
    });
    vi.advanceTimersByTime(60_000);
    while (ends().length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(ends()).toContain(held.session);
  });

  it('end at more frames than a join has', async () => {
    const node = await host(controllerKey, { role: 'controller' });
    const many = Buffer.concat(Array.from({ length: 40 }, () => encodeFrame('{}')));
    const seen = await observeTls(node.address.port, as(strangerKey, ALPN.join), many);
    expect(seen.bytes).toHaveLength(0);
    expect((await node.event('session-closed')).error?.code).toBe('invalid_request');
    expect(node.events.filter(({ type }) => type === 'message')).toHaveLength(32);
    expect(node.audits().some(({ kind }) => kind === 'protocol_error')).toBe(true);
  });

  it('that were given up before a word leave no trace, those that break off are audited', async () => {
    const node = await host(controllerKey, { role: 'controller' });
    for (const said of [Buffer.alloc(0), encodeFrame('{}').subarray(0, 3)]) {
      expect(node.audits()).toEqual([]);
      const socket = tlsConnect({
        port: node.address.port,
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ...as(strangerKey, ALPN.join),
      });
      socket.on('error', () => undefined);
      socket.resume();
      await once(socket, 'secureConnect');
      socket.end(said);
      await within(hasClosed(socket), 1_000, 'the end of the join');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(node.audits()).toMatchObject([{ kind: 'protocol_error', remoteAddress: '127.0.0.1' }]);
    expect(node.events.some(({ type }) => type === 'join')).toBe(false);
  });

  it('are few at once, small, and quick', async () => {
    const node = await host(controllerKey, { role: 'controller' });
    const { port } = node.address;
    const options = as(strangerKey, ALPN.join);
    const big = Buffer.alloc(4);
    big.writeUInt32BE(LIMITS.joinBytes + 1);
    expect((await observeTls(port, options, big)).bytes).toHaveLength(0);

    const waiting = Array.from({ length: LIMITS.joinConcurrent }, () => {
      const socket = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
      socket.on('error', () => undefined);
      cleanup.push(() => socket.destroy());
      return once(socket, 'secureConnect');
    });
    await Promise.all(waiting);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const refused = await observeTls(port, options, encodeFrame('{}'));
    expect(answerOf(refused.bytes)).toMatchObject({ type: 'refused', error: { code: 'join_busy' } });
    expect(node.audits().some(({ kind }) => kind === 'join_limited')).toBe(true);
  });
});
