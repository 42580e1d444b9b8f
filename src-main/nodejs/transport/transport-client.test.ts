import { once } from 'node:events';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import { entries } from '../entries.ts';
import type { Identity } from '../identity/identity.ts';
import { createChildProcessHost } from '../process-host/child-process-host.ts';
import { createGatewayDialer, createUpstreamDialer } from './dial.ts';
import {
  leaderId,
  listenEcho,
  listenLoopback,
  makeIdentity,
  makeToken,
  refusalOf,
  silentLogger,
  until,
  within,
} from './fixtures.ts';
import { addressOf, createTestbed, dialTo, hasIpv6, memberOf, watchedHost } from './testbed.ts';
import { createTransport } from './transport-client.ts';
import type { JoinConversation, PeerSession, Transport } from './transport.ts';

/** With the real transport processes. */

let controllerKey: Identity;
let workerKey: Identity;
let otherKey: Identity;
beforeAll(async () => {
  [controllerKey, workerKey, otherKey] = await Promise.all([makeIdentity(), makeIdentity(), makeIdentity()]);
});

const bed = createTestbed();
afterEach(() => bed.end());

describe('sessions', () => {
  it('carry text both ways and end on both sides', async () => {
    const [controller, worker] = [
      await bed.start(controllerKey, 'controller'),
      await bed.start(workerKey, 'worker', { listen: null }),
    ];
    expect(worker.clusterAddress).toBeNull();
    const accepted = new Promise<PeerSession>((resolve) => controller.onSession(resolve));
    controller.setMembers([memberOf(workerKey)]);
    const atWorker = await worker.dialSession(dialTo(controller, controllerKey));
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
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    const target = dialTo(controller, controllerKey);

    const unknown = await refusalOf(worker.dialSession(target));
    expect(unknown.code).toBe('not_a_member');

    const impostor = await refusalOf(worker.dialSession({ ...target, expectedNodeId: otherKey.nodeId }));
    expect(impostor.code).toBe('controller_key_mismatch');
    expect(impostor.message).toContain(controllerKey.nodeId.slice(0, 12));

    const wrongRole = await refusalOf(
      worker.dialSession({ ...target, addresses: [addressOf(worker)], expectedNodeId: workerKey.nodeId }),
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
    bed.onEnd(() => silent.close());
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
    const controller = await bed.start(controllerKey, 'controller');
    controller.setMembers([memberOf(workerKey)]);
    const worker = await bed.start(workerKey, 'worker');
    const silent = await listenLoopback((socket) => void socket.resume());
    bed.onEnd(() => silent.close());
    const session = await worker.dialSession({
      ...dialTo(controller, controllerKey),
      // One that says nothing, one that is another machine, one that is right.
      addresses: [silent.address, addressOf(worker), addressOf(controller)],
    });
    expect(session.peerId).toBe(controllerKey.nodeId);
    await until(() => silent.sockets.size === 0, 'the end of the attempt that lost');
  });

  it.skipIf(!hasIpv6)('come over IPv4 and IPv6 where every interface is meant', async () => {
    const controller = await bed.start(controllerKey, 'controller', { listen: { host: '0.0.0.0', port: 0 } });
    expect(addressOf(controller).host).toBe('0.0.0.0');
    controller.setMembers([memberOf(workerKey)]);
    const from: string[] = [];
    controller.onSession((session) => from.push(session.remoteAddress));
    const worker = await bed.start(workerKey, 'worker', { listen: null });
    const { port } = addressOf(controller);
    for (const host of ['127.0.0.1', '::1', 'localhost']) {
      await worker.dialSession({ ...dialTo(controller, controllerKey), addresses: [{ host, port }] });
    }
    await until(() => from.length === 3, 'three sessions');
    expect(from.slice(0, 2)).toEqual(['127.0.0.1', '::1']);
  });

  it('end when the member is removed, after the reason where there is one', async () => {
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    controller.onSession(() => undefined);
    controller.setMembers([memberOf(workerKey)]);
    const session = await worker.dialSession(dialTo(controller, controllerKey));
    const texts: string[] = [];
    session.onMessage((text) => texts.push(text));
    const ended = new Promise((resolve) => session.onClose(resolve));
    controller.setMembers([
      { ...memberOf(workerKey), refusal: { code: 'node_removed', message: 'Removed by its owner.' } },
    ]);
    await within(ended, 3_000, 'the end of the session');
    expect(texts.map((text) => JSON.parse(text) as unknown)).toEqual([
      { type: 'refused', error: { code: 'node_removed', message: 'Removed by its owner.' } },
    ]);
    controller.setMembers([]);
    expect((await refusalOf(worker.dialSession(dialTo(controller, controllerKey)))).code).toBe(
      'not_a_member',
    );
  });

  it('and joins wait for the listeners of a controller that is still starting', async () => {
    const controller = await bed.start(controllerKey, 'controller', { members: [memberOf(workerKey)] });
    const worker = await bed.start(workerKey, 'worker');
    const session = await worker.dialSession(dialTo(controller, controllerKey));
    const joining = await worker.dialJoin(dialTo(controller, controllerKey));
    const answers: string[] = [];
    joining.onMessage((text) => answers.push(text));
    joining.send('{"type":"ask"}');
    session.send('hello');
    await new Promise((resolve) => setTimeout(resolve, 200));
    const texts: string[] = [];
    controller.onSession((accepted) => accepted.onMessage((text) => texts.push(text)));
    controller.onJoin((join) => join.onMessage((text) => join.send(`heard ${text}`)));
    await until(() => texts.length === 1, 'the message');
    expect(texts).toEqual(['hello']);
    await until(() => answers.length === 1, 'the answer');
    expect(answers).toEqual(['heard {"type":"ask"}']);
  });

  it('end at a frame that is too big', async () => {
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    controller.setMembers([memberOf(workerKey)]);
    const accepted = new Promise<PeerSession>((resolve) => controller.onSession(resolve));
    const atWorker = await worker.dialSession(dialTo(controller, controllerKey));
    const atController = await accepted;
    const ended = new Promise<CoveyError | null>((resolve) => atController.onClose(resolve));
    atController.onMessage(() => undefined);
    atWorker.onMessage(() => undefined);
    atWorker.send('x'.repeat(1024 * 1024 + 1));
    expect(await within(ended, 3_000, 'the end of the session')).not.toBeNull();
  });
});

describe('joins', () => {
  async function conversation(): Promise<{
    controller: Transport;
    worker: Transport;
    atController: JoinConversation;
    atWorker: JoinConversation;
  }> {
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    const arrived = new Promise<JoinConversation>((resolve) => controller.onJoin(resolve));
    const atWorker = await worker.dialJoin({ ...dialTo(controller, controllerKey), expectedNodeId: null });
    atWorker.send('first');
    return { controller, worker, atWorker, atController: await arrived };
  }

  it('carry frames both ways, on a connection that both ends can name', async () => {
    const { controller, worker, atController, atWorker } = await conversation();
    expect(atWorker.peerId).toBe(controllerKey.nodeId);
    expect(atController.peerId).toBe(workerKey.nodeId);
    expect(atWorker.dialledAddress).toEqual(addressOf(controller));
    expect(atController.dialledAddress).toBeNull();
    expect(atWorker.binding).toMatch(/^[0-9a-f]{64}$/);
    expect(atController.binding).toBe(atWorker.binding);
    const another = await worker.dialJoin(dialTo(controller, controllerKey));
    expect(another.binding).not.toBe(atWorker.binding);

    const heard: string[] = [];
    atController.onMessage((text) => {
      heard.push(text);
      atController.send(`answer to ${text}`);
    });
    const answers: string[] = [];
    atWorker.onMessage((text) => answers.push(text));
    atWorker.send('second');
    await until(() => answers.length === 2, 'both answers');
    expect(answers).toEqual(['answer to first', 'answer to second']);

    const ends: Array<CoveyError | null> = [];
    atController.onClose((reason) => ends.push(reason));
    atWorker.onClose((reason) => ends.push(reason));
    atController.send('last words');
    atController.close();
    await until(() => ends.length === 2, 'both ends');
    expect(ends).toEqual([null, null]);
    expect(answers.at(-1)).toBe('last words');
  });

  it('that wait for a person are few from one address', async () => {
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    const arrived: JoinConversation[] = [];
    controller.onJoin((join) => arrived.push(join));
    for (let index = 0; index <= LIMITS.joinWaitingPerAddress; index += 1) {
      (await worker.dialJoin(dialTo(controller, controllerKey))).send('ask');
    }
    await until(() => arrived.length === LIMITS.joinWaitingPerAddress + 1, 'all of them');
    const [first, ...others] = arrived;
    const last = others.pop();
    expect(first?.hold(60_000)).toBe(true);
    expect(others.map((join) => join.hold(60_000))).toEqual(others.map(() => true));
    expect(last?.hold(60_000)).toBe(false);
    // Again is no more than once; and a place that is left is free.
    expect(first?.hold(60_000)).toBe(true);
    const ended = new Promise((resolve) => first?.onClose(resolve));
    first?.close();
    await within(ended, 3_000, 'the end of the first');
    expect(first?.hold(60_000)).toBe(false);
    expect(last?.hold(60_000)).toBe(true);
  });

  it('say nothing to a controller with another key', async () => {
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    let asked = 0;
    controller.onJoin(() => (asked += 1));
    const error = await refusalOf(
      worker.dialJoin({ ...dialTo(controller, controllerKey), expectedNodeId: otherKey.nodeId }),
    );
    expect(error.code).toBe('controller_key_mismatch');
    expect(asked).toBe(0);
  });
});

describe('identify', () => {
  it('tells which key answers where, and what is wrong elsewhere', async () => {
    const controller = await bed.start(controllerKey, 'controller');
    const worker = await bed.start(workerKey, 'worker');
    const audits: unknown[] = [];
    controller.onAudit((audit) => audits.push(audit));
    const nobody = await listenLoopback((socket) => socket.destroy());
    await nobody.close();
    const silent = await listenLoopback((socket) => void socket.resume());
    bed.onEnd(() => silent.close());
    const addresses = [addressOf(controller), addressOf(worker), nobody.address, silent.address];
    const attempts = await worker.identify(addresses, 400);
    expect(attempts.map(({ address, nodeId, problem }) => ({ address, nodeId, problem }))).toEqual([
      { address: addresses[0], nodeId: controllerKey.nodeId, problem: null },
      { address: addresses[1], nodeId: workerKey.nodeId, problem: null },
      { address: addresses[2], nodeId: null, problem: 'refuses connections' },
      { address: addresses[3], nodeId: null, problem: 'does not answer within 400 ms' },
    ]);
    expect(attempts[0]?.connectMs).toBeGreaterThan(0);
    expect(attempts[3]?.connectMs).toBeNull();
    expect(audits).toEqual([]);
    await until(() => silent.sockets.size === 0, 'the end of the attempt');
    await worker.close();
    expect((await worker.identify(addresses, 400))[0]?.problem).toContain('shutting down');
  });
});

describe('a killed transport process', () => {
  it('closes its sessions with the reason and is replaced', async () => {
    const processHost = watchedHost();
    const controller = await bed.start(controllerKey, 'controller', { processHost });
    controller.setMembers([memberOf(workerKey)]);
    const worker = await bed.start(workerKey, 'worker');
    const accepted: PeerSession[] = [];
    controller.onSession((session) => accepted.push(session));
    const session = await worker.dialSession(dialTo(controller, controllerKey));
    await until(() => accepted.length === 1, 'the session at the controller');
    const reasons: Array<CoveyError | null> = [];
    session.onClose((reason) => reasons.push(reason));
    accepted[0]?.onClose((reason) => reasons.push(reason));
    const { port } = addressOf(controller);
    processHost.children[0]?.kill();
    await until(() => reasons.length === 2, 'both ends');
    expect(reasons.every((reason) => reason instanceof CoveyError)).toBe(true);
    const deadline = performance.now() + 10_000;
    let again: PeerSession | null = null;
    while (!again && performance.now() < deadline) {
      again = await worker.dialSession(dialTo(controller, controllerKey)).catch(() => null);
    }
    expect(again?.peerId).toBe(controllerKey.nodeId);
    expect(addressOf(controller).port).toBe(port);
    await until(() => accepted.length === 2, 'the other session');
  });

  it('reports a port that is taken', async () => {
    const first = await bed.start(controllerKey, 'controller');
    const { port } = addressOf(first);
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
    bed.onEnd(() => engine.close());
    const worker = await bed.start(workerKey, 'worker');
    worker.setMembers([memberOf(controllerKey, 'controller')]);
    const grant = makeToken();
    worker.addGrant({
      token: grant,
      engineId: leaderId,
      port: engine.port,
      peers: [controllerKey.nodeId],
      maxStreams: 8,
      alpn: 'http',
      ttlMs: 60_000,
    });
    const dialer = createUpstreamDialer({ identity: controllerKey });
    bed.onEnd(() => dialer.close());
    const upstream = { nodeId: workerKey.nodeId, addresses: [addressOf(worker)], grant };
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
    const controller = await bed.start(controllerKey, 'controller');
    controller.setMembers([memberOf(workerKey)]);
    const dialer = createGatewayDialer({
      identity: workerKey,
      controller: { nodeId: controllerKey.nodeId, addresses: () => [addressOf(controller)] },
    });
    bed.onEnd(() => dialer.close());
    const error = await refusalOf(dialer.dialGateway(AbortSignal.timeout(5_000)));
    expect(error.code).toBe('not_the_controller');
  });
});
