import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Member } from '#shared/host/transport.ts';
import { CoveyError } from '#shared/errors.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { entries } from '../entries.ts';
import type { Identity } from '../identity/identity.ts';
import { createChildProcessHost } from '../process-host/child-process-host.ts';
import type { HostProcess, ProcessHost } from '../process-host/process-host.ts';
import { createGatewayDialer, createUpstreamDialer } from './dial.ts';
import {
  leaderId,
  listenEcho,
  listenLoopback,
  makeIdentity,
  makeToken,
  refusalOf,
  silentLogger,
  stageId,
  until,
  within,
  type LoopbackServer,
} from './fixtures.ts';
import { createTransport, type TransportOptions } from './transport-client.ts';
import type { LinkRequest, PeerSession, Transport } from './transport.ts';

/** With the real transport processes. */

let controllerKey: Identity;
let workerKey: Identity;
let otherKey: Identity;
beforeAll(async () => {
  [controllerKey, workerKey, otherKey] = await Promise.all([makeIdentity(), makeIdentity(), makeIdentity()]);
});

const hasIpv6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address: own }) => own === '::1'),
);

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

/** Children of the real kind, with a handle for the test to kill them. */
function watchedHost(): ProcessHost & { readonly children: HostProcess[] } {
  const inner = createChildProcessHost(entries);
  const children: HostProcess[] = [];
  return {
    children,
    fork(entry, options) {
      const child = inner.fork(entry, options);
      children.push(child);
      return child;
    },
  };
}

async function start(
  identity: Identity,
  role: 'controller' | 'worker',
  overrides: Partial<TransportOptions> = {},
): Promise<Transport> {
  const transport = await createTransport({
    processHost: createChildProcessHost(entries),
    identity,
    role,
    listen: { host: '127.0.0.1', port: 0 },
    gatewaySocket: null,
    logger: silentLogger,
    ...overrides,
  });
  cleanup.push(() => transport.close());
  return transport;
}

const address = (transport: Transport) => {
  if (!transport.clusterAddress) throw new Error('this node does not listen');
  return transport.clusterAddress;
};
const toController = (transport: Transport) => ({
  addresses: [address(transport)],
  expectedNodeId: controllerKey.nodeId,
  timeoutMs: 5_000,
});
const member = (identity: Identity, role: Member['role'] = 'worker'): Member => ({
  nodeId: identity.nodeId,
  role,
  name: `${role} ${identity.nodeId.slice(0, 4)}`,
});

describe('sessions', () => {
  it('carry text both ways and end on both sides', async () => {
    const [controller, worker] = [
      await start(controllerKey, 'controller'),
      await start(workerKey, 'worker', { listen: null }),
    ];
    expect(worker.clusterAddress).toBeNull();
    const accepted = new Promise<PeerSession>((resolve) => controller.onSession(resolve));
    controller.setMembers([member(workerKey)]);
    const atWorker = await worker.dialSession(toController(controller));
    const atController = await accepted;
    expect(atController.peerId).toBe(workerKey.nodeId);
    expect(atWorker.peerId).toBe(controllerKey.nodeId);

    const atControllerTexts: string[] = [];
    const atWorkerTexts: string[] = [];
    const ends: Array<CoveyError | null> = [];
    for (let index = 0; index < 100; index += 1) atWorker.send(`to the controller ${index}`);
    // Listeners that come late still hear everything.
    await new Promise((resolve) => setTimeout(resolve, 100));
    atController.onMessage((text) => {
      atControllerTexts.push(text);
      atController.send(text.replace('controller', 'worker'));
    });
    atWorker.onMessage((text) => atWorkerTexts.push(text));
    await until(() => atWorkerTexts.length === 100, 'all texts');
    expect(atControllerTexts).toEqual(Array.from({ length: 100 }, (_, i) => `to the controller ${i}`));
    expect(atWorkerTexts[99]).toBe('to the worker 99');

    atController.onClose((reason) => ends.push(reason));
    atWorker.onClose((reason) => ends.push(reason));
    atWorker.send('last words');
    atWorker.close();
    await until(() => ends.length === 2, 'both ends');
    expect(ends).toEqual([null, null]);
    expect(atControllerTexts.at(-1)).toBe('last words');
    atController.send('into the void');
  });

  it('are refused in words that name the cause', async () => {
    const controller = await start(controllerKey, 'controller');
    const worker = await start(workerKey, 'worker');
    const target = toController(controller);

    const unknown = await refusalOf(worker.dialSession(target));
    expect(unknown.code).toBe('not_a_member');

    const impostor = await refusalOf(worker.dialSession({ ...target, expectedNodeId: otherKey.nodeId }));
    expect(impostor.code).toBe('controller_key_mismatch');
    expect(impostor.message).toContain(controllerKey.nodeId.slice(0, 12));

    const wrongRole = await refusalOf(
      worker.dialSession({ ...target, addresses: [address(worker)], expectedNodeId: workerKey.nodeId }),
    );
    expect(wrongRole.code).toBe('controller_unreachable');
    expect(wrongRole.message).toContain('another role or version');

    const nobody = await listenLoopback((socket) => socket.destroy());
    const closedPort = nobody.address;
    await nobody.close();
    const unreachable = await refusalOf(worker.dialSession({ ...target, addresses: [closedPort] }));
    expect(unreachable.code).toBe('controller_unreachable');
    expect(unreachable.message).toContain(`127.0.0.1:${closedPort.port} refuses connections`);

    const abort = new AbortController();
    const silent = await listenLoopback((socket) => void socket.resume());
    cleanup.push(() => silent.close());
    const dialling = refusalOf(
      worker.dialSession({ ...target, addresses: [silent.address], signal: abort.signal }),
    );
    await until(() => silent.sockets.size === 1, 'the dial');
    abort.abort(new CoveyError('cancelled', 'enough'));
    expect((await dialling).code).toBe('cancelled');
    await until(() => silent.sockets.size === 0, 'the end of the dial');
    const late = await refusalOf(
      worker.dialSession({ ...target, addresses: [silent.address], timeoutMs: 200 }),
    );
    expect(late.message).toContain('200 ms');
  });

  it('find the address that answers among those that do not', async () => {
    const controller = await start(controllerKey, 'controller');
    controller.setMembers([member(workerKey)]);
    const worker = await start(workerKey, 'worker');
    const silent = await listenLoopback((socket) => void socket.resume());
    cleanup.push(() => silent.close());
    const session = await worker.dialSession({
      ...toController(controller),
      // One that says nothing, one that is another machine, one that is right.
      addresses: [silent.address, address(worker), address(controller)],
    });
    expect(session.peerId).toBe(controllerKey.nodeId);
    await until(() => silent.sockets.size === 0, 'the end of the attempt that lost');
  });

  it.skipIf(!hasIpv6)('come over IPv4 and IPv6 where every interface is meant', async () => {
    const controller = await start(controllerKey, 'controller', { listen: { host: '0.0.0.0', port: 0 } });
    expect(address(controller).host).toBe('0.0.0.0');
    controller.setMembers([member(workerKey)]);
    const from: string[] = [];
    controller.onSession((session) => from.push(session.remoteAddress));
    const worker = await start(workerKey, 'worker', { listen: null });
    const { port } = address(controller);
    for (const host of ['127.0.0.1', '::1', 'localhost']) {
      await worker.dialSession({ ...toController(controller), addresses: [{ host, port }] });
    }
    await until(() => from.length === 3, 'three sessions');
    expect(from.slice(0, 2)).toEqual(['127.0.0.1', '::1']);
  });

  it('end when the member is removed, after the reason where there is one', async () => {
    const controller = await start(controllerKey, 'controller');
    const worker = await start(workerKey, 'worker');
    controller.onSession(() => undefined);
    controller.setMembers([member(workerKey)]);
    const session = await worker.dialSession(toController(controller));
    const texts: string[] = [];
    session.onMessage((text) => texts.push(text));
    const ended = new Promise((resolve) => session.onClose(resolve));
    controller.setMembers([
      { ...member(workerKey), refusal: { code: 'node_removed', message: 'Removed by its owner.' } },
    ]);
    await within(ended, 3_000, 'the end of the session');
    expect(texts.map((text) => JSON.parse(text) as unknown)).toEqual([
      { type: 'refused', error: { code: 'node_removed', message: 'Removed by its owner.' } },
    ]);
    controller.setMembers([]);
    expect((await refusalOf(worker.dialSession(toController(controller)))).code).toBe('not_a_member');
  });

  it('end at a frame that is too big', async () => {
    const controller = await start(controllerKey, 'controller');
    const worker = await start(workerKey, 'worker');
    controller.setMembers([member(workerKey)]);
    const accepted = new Promise<PeerSession>((resolve) => controller.onSession(resolve));
    const atWorker = await worker.dialSession(toController(controller));
    const atController = await accepted;
    const ended = new Promise<CoveyError | null>((resolve) => atController.onClose(resolve));
    atController.onMessage(() => undefined);
    atWorker.onMessage(() => undefined);
    atWorker.send('x'.repeat(1024 * 1024 + 1));
    expect(await within(ended, 3_000, 'the end of the session')).not.toBeNull();
  });
});

describe('joins', () => {
  it('carry the request to the controller and its answer back', async () => {
    const controller = await start(controllerKey, 'controller');
    const worker = await start(workerKey, 'worker');
    const secret = makeToken();
    controller.onJoin(async ({ peerId, request }) => {
      if (request.secret !== secret) throw new CoveyError('join_secret_invalid', 'Not one of ours.');
      expect(peerId).toBe(workerKey.nodeId);
      return { ok: true, controllerId: controllerKey.nodeId, controllerName: 'desk' };
    });
    const request = { protocol: PROTOCOL_VERSION, secret, name: 'laptop' };
    expect(await worker.join(toController(controller), request)).toEqual({
      ok: true,
      controllerId: controllerKey.nodeId,
      controllerName: 'desk',
    });
    expect(await worker.join(toController(controller), { ...request, secret: makeToken() })).toEqual({
      ok: false,
      error: { code: 'join_secret_invalid', message: 'Not one of ours.' },
    });
    const malformed = { ...request, secret: 'no secret' };
    expect(await worker.join(toController(controller), malformed)).toMatchObject({
      ok: false,
      error: { code: 'invalid_request' },
    });
  });

  it('say nothing to a controller with another key', async () => {
    const controller = await start(controllerKey, 'controller');
    const worker = await start(workerKey, 'worker');
    let asked = 0;
    controller.onJoin(() => {
      asked += 1;
      return Promise.reject(new CoveyError('join_secret_invalid', ''));
    });
    const error = await refusalOf(
      worker.join(
        { ...toController(controller), expectedNodeId: otherKey.nodeId },
        { protocol: PROTOCOL_VERSION, secret: makeToken(), name: 'laptop' },
      ),
    );
    expect(error.code).toBe('controller_key_mismatch');
    expect(asked).toBe(0);
  });
});

describe('links', () => {
  const pulse = { pulseMs: 50, pulseLostMs: 400 };

  async function pair(engine: LoopbackServer, maxStreams = 1) {
    const leader = await start(controllerKey, 'worker', { listen: null, pulse });
    const stageHost = watchedHost();
    const stage = await start(workerKey, 'worker', { pulse, processHost: stageHost });
    stage.setMembers([member(controllerKey)]);
    const token = makeToken();
    stage.addGrant({
      token,
      engineId: stageId,
      port: engine.port,
      peers: [controllerKey.nodeId],
      maxStreams,
      alpn: 'tunnel',
    });
    const request: LinkRequest = {
      engineId: leaderId,
      stageEngineId: stageId,
      peer: workerKey.nodeId,
      peerName: 'the laptop',
      addresses: [address(stage)],
      grant: token,
      connectTimeoutMs: 3_000,
    };
    return { leader, stage, request, stageHost };
  }

  async function echoServer(): Promise<LoopbackServer> {
    const engine = await listenEcho();
    cleanup.push(() => engine.close());
    return engine;
  }

  async function local(port: number): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('error', () => undefined);
    cleanup.push(() => socket.destroy());
    await once(socket, 'connect');
    return socket;
  }

  const lossOf = (link: { onLost(listener: (error: CoveyError) => void): void }) =>
    new Promise<CoveyError>((resolve) => link.onLost(resolve));

  it('carry 200 MB each way unharmed, and count them', async () => {
    const totalBytes = 200 * 1024 * 1024;
    const engine = await echoServer();
    const { leader, request } = await pair(engine);
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
    await within(done, 15_000, 'everything back');
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
    await within(once(socket, 'close'), 2_000, 'the end of the stream');
    await until(() => engine.sockets.size === 0, 'the end at the engine');
  }, 40_000);

  it('deliver what was sent before the end, from either side', async () => {
    const last = randomBytes(3 * 1024 * 1024);
    const talker = await listenLoopback((socket) => {
      socket.resume();
      socket.end(last);
    });
    cleanup.push(() => talker.close());
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
    cleanup.push(() => listener.close());
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
    const stranger = await start(otherKey, 'worker', { listen: null });
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
    await within(once(socket, 'close'), 3_000, 'the end of the stream');
  });

  it('are lost when the way goes silent without closing', async () => {
    const { leader, stage, request } = await pair(await echoServer());
    const way = await blackHole(address(stage).port);
    cleanup.push(() => way.close());
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
    await within(once(socket, 'close'), 3_000, 'the end of the stream');
  });

  it('outlive a pulse that is cut, as long as the stage can be reached again', async () => {
    const { leader, stage, request } = await pair(await echoServer());
    const way = await blackHole(address(stage).port);
    cleanup.push(() => way.close());
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
    const port = address(stage).port;
    stageHost.children[0]?.kill();
    expect((await within(loss, 2_000, 'the loss')).code).toBe('stage_lost');
    await until(() => engine.sockets.size === 0, 'the end at the engine');
    await until(() => stageHost.children.length === 2, 'another process');
    // The members and grants of before are there again, where they were.
    const again = await reopen(leader, request);
    expect(address(stage).port).toBe(port);
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

describe('a killed transport process', () => {
  it('closes its sessions with the reason and is replaced', async () => {
    const processHost = watchedHost();
    const controller = await start(controllerKey, 'controller', { processHost });
    controller.setMembers([member(workerKey)]);
    const worker = await start(workerKey, 'worker');
    const accepted: PeerSession[] = [];
    controller.onSession((session) => accepted.push(session));
    const session = await worker.dialSession(toController(controller));
    await until(() => accepted.length === 1, 'the session at the controller');
    const reasons: Array<CoveyError | null> = [];
    session.onClose((reason) => reasons.push(reason));
    accepted[0]?.onClose((reason) => reasons.push(reason));
    const { port } = address(controller);
    processHost.children[0]?.kill();
    await until(() => reasons.length === 2, 'both ends');
    expect(reasons.every((reason) => reason instanceof CoveyError)).toBe(true);
    const deadline = performance.now() + 10_000;
    let again: PeerSession | null = null;
    while (!again && performance.now() < deadline) {
      again = await worker.dialSession(toController(controller)).catch(() => null);
    }
    expect(again?.peerId).toBe(controllerKey.nodeId);
    expect(address(controller).port).toBe(port);
    await until(() => accepted.length === 2, 'the other session');
  });

  it('reports a port that is taken', async () => {
    const first = await start(controllerKey, 'controller');
    const { port } = address(first);
    const error = await refusalOf(
      createTransport({
        processHost: createChildProcessHost(entries),
        identity: workerKey,
        role: 'worker',
        listen: { host: '127.0.0.1', port },
        gatewaySocket: null,
        logger: silentLogger,
      }),
    );
    expect(error.code).toBe('port_in_use');
    expect(error.message).toContain(String(port));
  });
});

describe('dialers of the main process', () => {
  it('reach an engine by its grant, from spare connections after the first', async () => {
    const engine = await listenEcho();
    cleanup.push(() => engine.close());
    const worker = await start(workerKey, 'worker');
    worker.setMembers([member(controllerKey, 'controller')]);
    const grant = makeToken();
    worker.addGrant({
      token: grant,
      engineId: leaderId,
      port: engine.port,
      peers: [controllerKey.nodeId],
      maxStreams: 8,
      alpn: 'http',
    });
    const dialer = createUpstreamDialer({ identity: controllerKey });
    cleanup.push(() => dialer.close());
    const upstream = { nodeId: workerKey.nodeId, addresses: [address(worker)], grant };
    for (let index = 0; index < 10; index += 1) {
      const stream = await dialer.dialUpstream(upstream, AbortSignal.timeout(5_000));
      stream.write(`hello ${index}`);
      const [answer] = (await once(stream, 'data')) as [Buffer];
      expect(answer.toString()).toBe(`hello ${index}`);
      stream.destroy();
    }
    expect(engine.accepted()).toBe(10);
    await until(() => engine.sockets.size === 0, 'the end at the engine');

    const refused = await refusalOf(
      dialer.dialUpstream({ ...upstream, grant: makeToken() }, AbortSignal.timeout(5_000)),
    );
    expect(refused.code).toBe('grant_invalid');
    worker.setMembers([]);
    const stranger = await refusalOf(dialer.dialUpstream(upstream, AbortSignal.timeout(5_000)));
    expect(stranger.code).toBe('engine_unreachable');
    await worker.close();
    const gone = await refusalOf(dialer.dialUpstream(upstream, AbortSignal.timeout(5_000)));
    expect(gone.code).toBe('engine_unreachable');
    expect(gone.message).toContain('refuses connections');
  });

  it('do not reach a gateway where there is none', async () => {
    const controller = await start(controllerKey, 'controller');
    controller.setMembers([member(workerKey)]);
    const dialer = createGatewayDialer({
      identity: workerKey,
      controller: { nodeId: controllerKey.nodeId, addresses: [address(controller)] },
    });
    cleanup.push(() => dialer.close());
    const error = await refusalOf(dialer.dialGateway(AbortSignal.timeout(5_000)));
    expect(error.code).toBe('not_the_controller');
  });
});
