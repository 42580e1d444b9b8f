import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeAll, expect, it } from 'vitest';
import type { Address } from '#shared/domain/node.ts';
import type { Identity } from '../identity/identity.ts';
import { leaderId, listenEcho, makeIdentity, makeToken, stageId, until, within } from './fixtures.ts';
import { addressOf, createTestbed, memberOf, watchedHost } from './testbed.ts';
import type { DialBack, Transport } from './transport.ts';

/** With the real transport processes: what a leader, a stage and their controller do about a way that is shut. */

let controllerKey: Identity;
let leaderKey: Identity;
let stageKey: Identity;
beforeAll(async () => {
  [controllerKey, leaderKey, stageKey] = await Promise.all([makeIdentity(), makeIdentity(), makeIdentity()]);
});

const bed = createTestbed();
afterEach(() => bed.end());

const nowhere: Address = { host: '127.0.0.1', port: 1 };

async function trio(routes: readonly DialBack['route'][]) {
  const engine = await listenEcho();
  bed.onEnd(() => engine.close());
  const controllerHost = watchedHost();
  const controller = await bed.start(controllerKey, 'controller', { processHost: controllerHost });
  const leader = await bed.start(leaderKey, 'worker');
  const stage = await bed.start(stageKey, 'worker', { listen: null });
  const members = [memberOf(leaderKey), memberOf(stageKey)];
  controller.setMembers(members);
  const relay = { nodeId: controllerKey.nodeId, addresses: [addressOf(controller)] };
  for (const worker of [leader, stage]) {
    worker.setMembers([memberOf(controllerKey, 'controller'), ...members]);
    worker.setRelay(relay);
  }
  const grant = makeToken();
  stage.addGrant({
    token: grant,
    engineId: stageId,
    port: engine.port,
    peers: [leaderKey.nodeId, controllerKey.nodeId],
    maxStreams: 8,
    alpn: 'tunnel',
    ttlMs: 60_000,
  });
  const carry = (from: Transport, key: Identity): void =>
    from.onDialRequest((request) => {
      if (!routes.includes(request.route)) return;
      const isRelay = request.route === 'relay';
      if (isRelay) {
        controller.allowRelay({
          token: request.token,
          between: [key.nodeId, request.peer],
          ttlMs: 10_000,
        });
      }
      const addresses = isRelay ? relay.addresses : [addressOf(from)];
      stage.dialBack({ ...request, peer: key.nodeId, peerName: 'the asker', addresses });
    });
  carry(leader, leaderKey);
  carry(controller, controllerKey);
  const peer = { peer: stageKey.nodeId, peerName: 'the laptop', addresses: [nowhere] };
  const openLink = () =>
    leader.openLink({ ...peer, engineId: leaderId, stageEngineId: stageId, grant, connectTimeoutMs: 8_000 });
  return { controller, controllerHost, leader, stage, engine, grant, peer, openLink };
}

async function echo(port: number, text: string) {
  const socket = connect({ port, host: '127.0.0.1' });
  bed.onEnd(() => socket.destroy());
  socket.on('error', () => undefined);
  socket.write(text);
  const [answer] = (await within(once(socket, 'data'), 5_000, 'the echo')) as [Buffer];
  expect(answer.toString()).toBe(text);
  return socket;
}

it('a reversed link outlives its controller', async () => {
  const { controllerHost, openLink } = await trio(['reverse']);
  const link = await openLink();
  let lost = 0;
  link.onLost(() => (lost += 1));
  const socket = await echo(link.port, 'before');
  controllerHost.children[0]?.kill();
  await until(() => controllerHost.children.length === 2, 'another process', 10_000);
  socket.write('after');
  const [answer] = (await within(once(socket, 'data'), 3_000, 'the echo')) as [Buffer];
  expect(answer.toString()).toBe('after');
  expect(lost).toBe(0);
  expect(link.observe()).toMatchObject({ path: 'reverse', connected: true });
});

it('a relayed link ends with its controller, and can be opened again', async () => {
  const { controller, controllerHost, leader, openLink } = await trio(['relay']);
  const link = await openLink();
  const lost = new Promise<Error>((resolve) => link.onLost(resolve));
  await echo(link.port, 'before');
  await until(() => link.observe().path === 'relay', 'the path');
  controllerHost.children[0]?.kill();
  expect((await within(lost, 3_000, 'the loss')).message).toContain('the laptop');
  const isBack = async (): Promise<boolean> =>
    (await leader.identify([addressOf(controller)], 1_000))[0]?.nodeId === controllerKey.nodeId;
  await within(
    (async () => {
      while (!(await isBack())) await new Promise((resolve) => setTimeout(resolve, 50));
    })(),
    10_000,
    'the controller again',
  );
  const again = await openLink();
  await echo(again.port, 'after');
}, 40_000);

it('the controller gets streams and measurements the other way round', async () => {
  const { controller, leader, peer, grant } = await trio(['reverse', 'relay']);
  const signal = AbortSignal.timeout(8_000);
  const { socketPath, path } = await controller.openStream({ ...peer, grant, timeoutMs: 5_000, signal });
  expect(path).toBe('reverse');
  const socket = connect(socketPath);
  bed.onEnd(() => socket.destroy());
  socket.write('a request');
  const [answer] = (await within(once(socket, 'data'), 5_000, 'the echo')) as [Buffer];
  expect(answer.toString()).toBe('a request');

  for (const transport of [controller, leader]) {
    const probe = await transport.probe({ ...peer, bytes: 1_000_000, timeoutMs: 8_000 });
    expect(probe.path).toBe('reverse');
    expect(probe.bytesPerS).toBeGreaterThan(1_000_000);
    expect(probe.attempts).toMatchObject([
      { address: nowhere, nodeId: null, problem: 'refuses connections' },
    ]);
  }
});
