import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TransportAudit } from '#shared/host/transport.ts';
import { ALPN } from '#shared/protocol/version.ts';
import type { Identity } from '../../identity/identity.ts';
import { dialTls } from '../dial-tls.ts';
import { makeIdentity, refusalOf, hasClosed, until, within } from '../fixtures.ts';
import { identify } from '../identify.ts';
import { clientContext } from '../tls-settings.ts';
import { createListener, type Listener, type ListenerOptions } from './listener.ts';

let own: Identity;
let peer: Identity;
beforeAll(async () => {
  [own, peer] = await Promise.all([makeIdentity(), makeIdentity()]);
});

const cleanup: Array<() => void> = [];
afterEach(() => {
  for (const step of cleanup.splice(0).reverse()) step();
});

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A port with room for one connection at a time: the next is taken only when the one before it is gone. */
async function listenForOne(
  options: Partial<ListenerOptions> = {},
): Promise<{ listener: Listener; audits: TransportAudit[] }> {
  const audits: TransportAudit[] = [];
  const listener = await createListener({
    identity: own,
    listen: { host: '127.0.0.1', port: 0 },
    member: () => undefined,
    onJoin: null,
    onSession: null,
    onStream: (socket) => socket.destroy(),
    audit: (audit) => audits.push(audit),
    limits: { unknownPeers: 1, burst: 1_000, perS: 1_000 },
    ...options,
  });
  cleanup.push(() => listener.close());
  return { listener, audits };
}

async function dialled({ address }: Listener, allowHalfOpen = false): Promise<Socket> {
  const socket = connect({ port: address.port, host: address.host, allowHalfOpen });
  socket.on('error', () => undefined);
  socket.resume();
  cleanup.push(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** What a client says first, so that a part of it can be said. */
async function clientHello(): Promise<Buffer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = tlsConnect({ port, host: '127.0.0.1', ALPNProtocols: [ALPN.hello] });
  client.on('error', () => undefined);
  const [socket] = await accepted;
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

describe('connections that end early', () => {
  it('are forgotten at once after a question which key answers', async () => {
    const { listener, audits } = await listenForOne();
    const context = clientContext(peer);
    for (let asked = 0; asked < 5; asked += 1) {
      const [attempt] = await identify(context, [listener.address], 2_000);
      expect(attempt).toMatchObject({ nodeId: own.nodeId, problem: null });
      await wait(200);
    }
    expect(audits).toEqual([]);
  });

  it("let a member's question be known as a member's", async () => {
    const member = { nodeId: peer.nodeId, role: 'worker', name: 'w' } as const;
    let known = 0;
    const { listener, audits } = await listenForOne({
      member: (nodeId) => {
        known += 1;
        return nodeId === peer.nodeId ? member : undefined;
      },
      limits: { unknownPeers: 1, burst: 1, perS: 0 },
    });
    for (let asked = 1; asked <= 3; asked += 1) {
      const [attempt] = await identify(clientContext(peer), [listener.address], 2_000);
      expect(attempt?.problem).toBeNull();
      await until(() => known === asked, 'the key of the member');
    }
    expect(audits).toEqual([]);
  });

  it('are forgotten at once after a dial that was given up', async () => {
    const { listener, audits } = await listenForOne();
    const target = {
      addresses: [listener.address],
      nodeId: peer.nodeId,
      name: 'the peer',
      alpn: ALPN.tunnel,
      unreachable: 'stage_unreachable',
    } as const;
    for (let tried = 0; tried < 3; tried += 1) {
      // Another key than the expected answers; then one that is given up at some time in the handshake.
      const error = await refusalOf(dialTls(clientContext(peer), target, { timeoutMs: 2_000 }));
      expect(error.message).toContain('answers with another key');
      await wait(100);
      const signal = AbortSignal.timeout(tried);
      await refusalOf(dialTls(clientContext(peer), target, { timeoutMs: 2_000, signal }));
      await wait(100);
    }
    expect(audits).toEqual([]);
    const [attempt] = await identify(clientContext(peer), [listener.address], 2_000);
    expect(attempt?.problem).toBeNull();
  });

  it('are forgotten at once when the peer ends half way through the handshake', async () => {
    const { listener, audits } = await listenForOne();
    const hello = await clientHello();
    for (const said of [Buffer.alloc(0), hello.subarray(0, 100), hello]) {
      // Half open: the other side's own end closes it, not ours.
      const socket = await dialled(listener, true);
      if (said.length > 0) socket.write(said);
      await wait(20);
      expect(socket.readableEnded).toBe(false);
      socket.end();
      await within(hasClosed(socket), 500, 'the end of the connection');
      await wait(20);
    }
    for (const said of [Buffer.alloc(0), hello]) {
      const socket = await dialled(listener);
      socket.write(said);
      await wait(20);
      socket.resetAndDestroy();
      await wait(50);
    }
    expect(audits).toEqual([]);
    const [attempt] = await identify(clientContext(peer), [listener.address], 2_000);
    expect(attempt?.problem).toBeNull();
  });
});

describe('audits name the address', () => {
  it('of a connection that says nothing in time', async () => {
    const { listener, audits } = await listenForOne({ handshakeMs: 150 });
    const socket = await dialled(listener);
    await within(hasClosed(socket), 2_000, 'the end of the connection');
    expect(audits).toEqual([
      {
        kind: 'protocol_error',
        remoteAddress: '127.0.0.1',
        peerId: null,
        detail: 'no TLS session: ERR_TLS_HANDSHAKE_TIMEOUT',
      },
    ]);
  });

  it('of every one in a flood', async () => {
    const limits = { unknownPeers: 20, burst: 1_000, perS: 1_000 };
    const { listener, audits } = await listenForOne({ handshakeMs: 300, limits });
    const sockets = await Promise.all(Array.from({ length: 40 }, () => dialled(listener)));
    await within(Promise.all(sockets.map(hasClosed)), 3_000, 'the end of the flood');
    const kinds = Map.groupBy(audits, ({ kind }) => kind);
    expect(kinds.get('flood')).toHaveLength(20);
    expect(kinds.get('protocol_error')).toHaveLength(20);
    expect(new Set(audits.map(({ remoteAddress }) => remoteAddress))).toEqual(new Set(['127.0.0.1']));
  });

  it('also of a peer that is gone when its bytes are read', async () => {
    const { listener, audits } = await listenForOne();
    const socket = await dialled(listener);
    await wait(50);
    socket.write('GET / HTTP/1.1\r\n\r\n');
    socket.resetAndDestroy();
    await until(() => audits.length > 0, 'the audit');
    expect(audits[0]).toMatchObject({ kind: 'protocol_error', remoteAddress: '127.0.0.1' });
  });
});

describe('connections of members', () => {
  it('may end one side and still be answered', async () => {
    const member = { nodeId: peer.nodeId, role: 'worker', name: 'w' } as const;
    const { listener } = await listenForOne({
      member: () => member,
      onStream: (socket) => {
        socket.resume();
        socket.once('end', () => setTimeout(() => socket.end('the answer'), 50));
      },
    });
    const target = {
      addresses: [listener.address],
      nodeId: own.nodeId,
      name: 'the peer',
      alpn: ALPN.tunnel,
      unreachable: 'stage_unreachable',
    } as const;
    const socket = await dialTls(clientContext(peer), target, { timeoutMs: 2_000 });
    cleanup.push(() => socket.destroy());
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.end('a question');
    await within(hasClosed(socket), 2_000, 'the end of the connection');
    expect(Buffer.concat(chunks).toString()).toBe('the answer');
  });
});
