import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { CoveyError } from '#shared/errors.ts';
import type { Identity } from '../identity/identity.ts';
import {
  leaderId,
  listenEcho,
  listenLoopback,
  makeIdentity,
  makeToken,
  refusalOf,
  stageId,
  until,
  within,
  type LoopbackServer,
  hasClosed,
} from './fixtures.ts';
import { addressOf, createTestbed, memberOf, watchedHost } from './testbed.ts';
import type { LinkRequest, Transport } from './transport.ts';

/** With the real transport processes. */

let controllerKey: Identity;
let workerKey: Identity;
let otherKey: Identity;
beforeAll(async () => {
  [controllerKey, workerKey, otherKey] = await Promise.all([makeIdentity(), makeIdentity(), makeIdentity()]);
});

const bed = createTestbed();
afterEach(() => bed.end());

describe('links', () => {
  const quick = { pulseMs: 50, pulseLostMs: 400 };

  async function pair(engine: LoopbackServer, maxStreams = 1, pulse = quick) {
    const leader = await bed.start(controllerKey, 'worker', { listen: null, pulse });
    const stageHost = watchedHost();
    const stage = await bed.start(workerKey, 'worker', { pulse, processHost: stageHost });
    stage.setMembers([memberOf(controllerKey)]);
    const token = makeToken();
    stage.addGrant({
      token,
      engineId: stageId,
      port: engine.port,
      peers: [controllerKey.nodeId],
      maxStreams,
      alpn: 'tunnel',
      ttlMs: 60_000,
    });
    const request: LinkRequest = {
      engineId: leaderId,
      stageEngineId: stageId,
      peer: workerKey.nodeId,
      peerName: 'the laptop',
      addresses: [addressOf(stage)],
      grant: token,
      connectTimeoutMs: 3_000,
    };
    return { leader, stage, request, stageHost };
  }

  async function echoServer(): Promise<LoopbackServer> {
    const engine = await listenEcho();
    bed.onEnd(() => engine.close());
    return engine;
  }

  async function local(port: number): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('error', () => undefined);
    bed.onEnd(() => socket.destroy());
    await once(socket, 'connect');
    return socket;
  }

  const lossOf = (link: { onLost(listener: (error: CoveyError) => void): void }) =>
    new Promise<CoveyError>((resolve) => link.onLost(resolve));

  it('carry 200 MB each way unharmed, and count them', async () => {
    const totalBytes = 200 * 1024 * 1024;
    const engine = await echoServer();
    // A busy machine may leave a process without a core for longer than the quick pulse allows.
    const { leader, request } = await pair(engine, 1, { pulseMs: 100, pulseLostMs: 20_000 });
    const link = await leader.openLink(request);
    const socket = await local(link.port);
    const sent = createHash('sha256');
    const received = createHash('sha256');
    let receivedBytes = 0;
    const done = new Promise<void>((resolve) => {
      socket.on('data', (chunk: Buffer) => {
        received.update(chunk);
        receivedBytes += chunk.length;
        if (receivedBytes === totalBytes) resolve();
      });
    });
    const block = randomBytes(1024 * 1024);
    for (let bytes = 0; bytes < totalBytes; bytes += block.length) {
      block.writeUInt32LE(bytes, bytes % (block.length - 4));
      sent.update(block);
      if (!socket.write(Buffer.from(block))) await once(socket, 'drain');
    }
    await within(done, 30_000, 'everything back');
    expect(received.digest('hex')).toBe(sent.digest('hex'));
    await until(() => link.observe().receivedBytes === totalBytes, 'the counters');
    expect(link.observe()).toMatchObject({
      stageEngineId: stageId,
      connected: true,
      sentBytes: totalBytes,
      lastSender: 'stage',
    });
    expect(link.observe().rttMs).not.toBeNull();
    expect(link.observe().idleMs).toBeLessThan(5_000);
    link.close();
    await within(hasClosed(socket), 2_000, 'the end of the stream');
    await until(() => engine.sockets.size === 0, 'the end at the engine');
  }, 60_000);

  it('deliver what was sent before the end, from either side', async () => {
    const last = randomBytes(3 * 1024 * 1024);
    const talker = await listenLoopback((socket) => {
      socket.resume();
      socket.end(last);
    });
    bed.onEnd(() => talker.close());
    const { leader, request } = await pair(talker);
    const link = await leader.openLink(request);
    const loss = lossOf(link);
    const socket = await local(link.port);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    await within(once(socket, 'end'), 5_000, 'the end');
    expect(Buffer.concat(chunks).equals(last)).toBe(true);
    // And the stage's end of a stream that was in use is the loss of the stage.
    expect((await within(loss, 2_000, 'the loss')).code).toBe('stage_lost');

    let heard = Buffer.alloc(0);
    let ended = false;
    const listener = await listenLoopback(
      (engineEnd) => {
        engineEnd.on('data', (chunk: Buffer) => (heard = Buffer.concat([heard, chunk])));
        engineEnd.on('end', () => {
          ended = true;
          engineEnd.end();
        });
      },
      { allowHalfOpen: true },
    );
    bed.onEnd(() => listener.close());
    const second = await pair(listener);
    const secondLink = await second.leader.openLink(second.request);
    const writer = await local(secondLink.port);
    writer.end(last);
    await until(() => ended, 'the end at the engine');
    expect(heard.equals(last)).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(secondLink.observe().connected).toBe(true);
  });

  it('let one stream follow another where only one may be', async () => {
    const engine = await echoServer();
    const { leader, request } = await pair(engine);
    const link = await leader.openLink(request);
    for (let index = 0; index < 30; index += 1) {
      const socket = await local(link.port);
      socket.write(`${index}`);
      const [answer] = (await within(once(socket, 'data'), 3_000, 'the echo')) as [Buffer];
      expect(answer.toString()).toBe(`${index}`);
      socket.destroy();
    }
    expect(engine.accepted()).toBe(30);
    expect(link.observe().connected).toBe(true);
  });

  it('are refused for a grant of another node, a removed grant, and a stage that is not there', async () => {
    const engine = await echoServer();
    const { leader, stage, request } = await pair(engine);
    const invalid = await refusalOf(leader.openLink({ ...request, grant: makeToken() }));
    expect(invalid.code).toBe('stage_unreachable');
    expect(invalid.message).toContain('the laptop');
    const stranger = await bed.start(otherKey, 'worker', { listen: null });
    expect((await refusalOf(stranger.openLink(request))).code).toBe('stage_unreachable');
    stage.removeGrants(stageId);
    const removed = await refusalOf(leader.openLink(request));
    expect(removed.message).toContain('has ended');
    await stage.close();
    const gone = await refusalOf(leader.openLink(request));
    expect(gone.message).toContain('refuses connections');
  });

  it('are lost when the grant goes', async () => {
    const { leader, stage, request } = await pair(await echoServer());
    const link = await leader.openLink(request);
    const loss = lossOf(link);
    stage.removeGrants(stageId);
    const error = await within(loss, 1_000, 'the loss');
    expect(error.code).toBe('stage_lost');
    expect(error.message).toContain('the laptop');
    expect(link.observe().connected).toBe(false);
    await expect(local(link.port)).rejects.toThrow();
  });

  it('are lost at once when the engine behind a stream dies', async () => {
    const engine = await echoServer();
    const { leader, request } = await pair(engine);
    const link = await leader.openLink(request);
    const loss = lossOf(link);
    const socket = await local(link.port);
    socket.write('x');
    await once(socket, 'data');
    for (const engineEnd of engine.sockets) engineEnd.resetAndDestroy();
    expect((await within(loss, 500, 'the loss')).code).toBe('stage_lost');
    await within(hasClosed(socket), 3_000, 'the end of the stream');
  });

  it('are lost when the way goes silent without closing', async () => {
    const { leader, stage, request } = await pair(await echoServer());
    const way = await blackHole(addressOf(stage).port);
    bed.onEnd(() => way.close());
    const link = await leader.openLink({ ...request, addresses: [way.address] });
    const loss = lossOf(link);
    const socket = await local(link.port);
    socket.write('x');
    await once(socket, 'data');
    const silentAt = performance.now();
    way.swallow();
    const error = await within(loss, 3_000, 'the loss');
    expect(error.message).toContain('has not answered for 0.4 s');
    expect(performance.now() - silentAt).toBeGreaterThan(300);
    await within(hasClosed(socket), 3_000, 'the end of the stream');
  });

  it('outlive a pulse that is cut, as long as the stage can be reached again', async () => {
    const { leader, stage, request } = await pair(await echoServer());
    const way = await blackHole(addressOf(stage).port);
    bed.onEnd(() => way.close());
    const link = await leader.openLink({ ...request, addresses: [way.address] });
    let lost = 0;
    link.onLost(() => (lost += 1));
    for (const socket of way.sockets) socket.destroy();
    await until(() => way.sockets.size > 0, 'another pulse');
    await new Promise((resolve) => setTimeout(resolve, 800));
    expect(lost).toBe(0);
    expect(link.observe().connected).toBe(true);
  });

  it('survive nothing of a killed transport process, but the next works on the same port', async () => {
    const engine = await echoServer();
    const { leader, stage, request, stageHost } = await pair(engine);
    const link = await leader.openLink(request);
    const loss = lossOf(link);
    const socket = await local(link.port);
    socket.write('x');
    await once(socket, 'data');
    const port = addressOf(stage).port;
    stageHost.children[0]?.kill();
    expect((await within(loss, 2_000, 'the loss')).code).toBe('stage_lost');
    await until(() => engine.sockets.size === 0, 'the end at the engine');
    await until(() => stageHost.children.length === 2, 'another process');
    // The members and grants of before are there again, where they were.
    const again = await reopen(leader, request);
    expect(addressOf(stage).port).toBe(port);
    const next = await local(again.port);
    next.write('y');
    const [answer] = (await once(next, 'data')) as [Buffer];
    expect(answer.toString()).toBe('y');
  });

  async function reopen(leader: Transport, request: LinkRequest) {
    const deadline = performance.now() + 10_000;
    for (;;) {
      try {
        return await leader.openLink(request);
      } catch (error) {
        if (performance.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }
});

/** A way to `port` that can be told to swallow everything from now on, without closing anything. */
async function blackHole(port: number) {
  let swallowing = false;
  const server = await listenLoopback((socket) => {
    const onward = connect(port, '127.0.0.1');
    onward.on('error', () => socket.destroy());
    socket.on('data', (chunk) => void (swallowing || onward.write(chunk)));
    onward.on('data', (chunk) => void (swallowing || socket.write(chunk)));
    socket.on('close', () => onward.destroy());
    onward.on('close', () => socket.destroy());
  });
  return { ...server, swallow: () => void (swallowing = true) };
}
