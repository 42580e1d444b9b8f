import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { DialBack } from '#shared/host/transport.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { createDialer } from '../dial.ts';
import { hasClosed, listenLoopback, makeIdentity, makeToken, refusalOf, until, within } from '../fixtures.ts';
import type { Identity } from '../../identity/identity.ts';
import { echoThrough, startTrio, type Trio, type TrioOptions } from './trio.ts';

/** Real TLS on loopback between three transport hosts in this process. */

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

async function trioOf(options?: TrioOptions): Promise<Trio> {
  const trio = await startTrio(options);
  cleanup.push(() => trio.close());
  return trio;
}

/** Refuses connections at once. */
async function refusing() {
  const server = await listenLoopback((socket) => socket.destroy());
  await server.close();
  return server.address;
}

/** Takes connections and never says a word. */
async function silent() {
  const server = await listenLoopback((socket) => void socket.resume());
  cleanup.push(() => server.close());
  return server.address;
}

describe('a stage that can be dialled', () => {
  it('is dialled', async () => {
    const trio = await trioOf();
    const link = await trio.open([trio.stage.address]);
    const socket = await echoThrough(link.port, 'directly');
    const beat = await trio.beat(link.operation);
    expect(beat).toMatchObject({ path: 'direct', connected: true, sentBytes: 8, receivedBytes: 8 });
    expect(trio.requests).toEqual([]);
    socket.destroy();
  });
});

describe('a stage that cannot be dialled', () => {
  it('calls back when it is asked, at once where dialling is refused', async () => {
    const trio = await trioOf({ stageListens: false });
    const startedAt = performance.now();
    const link = await trio.open([await refusing()]);
    expect(performance.now() - startedAt).toBeLessThan(900);
    const sockets = [];
    for (let index = 0; index < 5; index += 1) sockets.push(await echoThrough(link.port, `number ${index}`));
    expect((await trio.beat(link.operation)).path).toBe('reverse');
    expect((await trio.beat(link.operation)).rttMs).not.toBeNull();
    expect(trio.requests.map(({ route }) => route)).toEqual(Array.from({ length: 6 }, () => 'reverse'));
    expect(trio.engine.sockets.size).toBe(5);
    for (const socket of sockets) socket.destroy();
    await until(() => trio.engine.sockets.size === 0, 'the ends at the engine');
    expect(trio.leader.audits()).toEqual([]);
    expect(trio.stage.audits()).toEqual([]);
  });

  it('calls back after a moment where dialling meets silence, and later streams do not wait again', async () => {
    const trio = await trioOf();
    const startedAt = performance.now();
    const link = await trio.open([await silent()]);
    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(2_300);
    const againAt = performance.now();
    const socket = await echoThrough(link.port, 'quick');
    expect(performance.now() - againAt).toBeLessThan(700);
    expect((await trio.beat(link.operation)).path).toBe('reverse');
    socket.destroy();
  });

  it('is reached through the controller when it cannot call back either', async () => {
    const trio = await trioOf({ routes: ['relay'], stageListens: false });
    const link = await trio.open([await refusing()]);
    const socket = await echoThrough(link.port, 'through the controller');
    expect((await trio.beat(link.operation)).path).toBe('relay');
    expect(trio.requests.map(({ route }) => route)).toContain('reverse');
    // When one side ends, so does the other.
    socket.end();
    await within(hasClosed(socket), 3_000, 'the end of the stream');
    await until(() => trio.engine.sockets.size === 0, 'the end at the engine');
    const next = await echoThrough(link.port, 'again');
    for (const engineEnd of trio.engine.sockets) engineEnd.destroy();
    await within(hasClosed(next), 3_000, 'the end of the stream');
    expect((await trio.leader.event('link-lost')).error.code).toBe('stage_lost');
    expect(trio.controller.audits()).toEqual([]);
  });

  it('is named with everything that was tried when no way works', async () => {
    const trio = await trioOf({ routes: [] });
    const address = await refusing();
    const error = await refusalOf(trio.open([address], { connectTimeoutMs: 3_000 }));
    expect(error.code).toBe('stage_unreachable');
    expect(error.message).toContain(`127.0.0.1:${address.port} refuses connections`);
  });

  it('carries megabytes both ways over the relay unharmed', async () => {
    const trio = await trioOf({ routes: ['relay'] });
    const link = await trio.open([await refusing()]);
    const socket = await echoThrough(link.port, 'x');
    const block = Buffer.alloc(256 * 1024, 'relayed bytes ');
    const blocks = 128;
    let received = 0;
    let wrong = 0;
    socket.on('data', (chunk: Buffer) => {
      for (const byte of chunk) {
        if (byte !== block[received % block.length]) wrong += 1;
        received += 1;
      }
    });
    for (let index = 0; index < blocks; index += 1) {
      if (!socket.write(block)) await once(socket, 'drain');
    }
    await until(() => received === block.length * blocks, 'everything back', 20_000);
    expect(wrong).toBe(0);
    socket.destroy();
  }, 40_000);
});

describe('the way', () => {
  it('changes with what works: the pulse outlives a direct way that is cut', async () => {
    const trio = await trioOf();
    const way = await forwarder(trio.stage.address.port);
    const link = await trio.open([way.address]);
    expect((await trio.beat(link.operation)).path).toBe('direct');
    await way.close();
    await until(() => trio.requests.length > 0, 'a request');
    const socket = await echoThrough(link.port, 'still there');
    expect((await trio.beat(link.operation)).path).toBe('reverse');
    expect(trio.leader.events.some(({ type }) => type === 'link-lost')).toBe(false);
    socket.destroy();
  });

  it('back to direct is found by a stream that came the other way', async () => {
    const trio = await trioOf();
    // Slow to answer, so that reverse wins, but there.
    const way = await forwarder(trio.stage.address.port, 1_400);
    cleanup.push(() => way.close());
    const link = await trio.open([way.address]);
    expect((await trio.beat(link.operation)).path).toBe('reverse');
    way.delayMs = 0;
    await until(() => way.carried > 0, 'the late direct connection');
    await new Promise((resolve) => setTimeout(resolve, 300));
    const socket = await echoThrough(link.port, 'direct now');
    expect((await trio.beat(link.operation)).path).toBe('direct');
    // The pulse goes the same way.
    socket.destroy();
    await until(() => trio.engine.sockets.size === 0, 'the end of the stream');
    expect((await trio.beat(link.operation)).path).toBe('direct');
  });
});

/** A way to `port` that can be slow to begin and can be closed. */
async function forwarder(port: number, delayMs = 0) {
  const state = { delayMs, carried: 0 };
  const server = await listenLoopback((socket) => {
    socket.pause();
    setTimeout(() => {
      state.carried += 1;
      const onward = connect(port, '127.0.0.1');
      onward.on('error', () => socket.destroy());
      socket.pipe(onward).pipe(socket);
      socket.on('close', () => onward.destroy());
      onward.on('close', () => socket.destroy());
    }, state.delayMs);
  });
  return Object.assign(state, { address: server.address, close: () => server.close() });
}

describe('a connection that nobody here has asked for', () => {
  async function dialsBack(trio: Trio, as: Identity, token: string): Promise<void> {
    const dialer = createDialer({ identity: as, spares: 0 });
    cleanup.push(() => dialer.close());
    const socket = await dialer.open(
      {
        addresses: [trio.leader.address],
        nodeId: trio.leader.identity.nodeId,
        name: 'the leader',
        alpn: ALPN.tunnel,
        unreachable: 'stage_unreachable',
        preamble: { protocol: PROTOCOL_VERSION, target: 'reverse', token },
      },
      { timeoutMs: 3_000 },
    );
    cleanup.push(() => socket.destroy());
  }

  it('is refused: wrong token, another member with the right one, a token that was used', async () => {
    const other = await makeIdentity();
    const trio = await trioOf({ routes: [] });
    trio.leader.host.handle({
      type: 'members',
      members: [
        { nodeId: trio.stage.identity.nodeId, role: 'worker', name: 'stage' },
        { nodeId: other.nodeId, role: 'worker', name: 'other' },
      ],
    });
    const { stage } = trio;
    expect((await refusalOf(dialsBack(trio, stage.identity, makeToken()))).code).toBe('dial_refused');
    const opening = trio.open([await refusing()]);
    opening.catch(() => undefined);
    await until(() => trio.requests.length > 0, 'a request');
    const { token } = trio.requests[0] as DialBack;
    expect((await refusalOf(dialsBack(trio, other, token))).code).toBe('dial_refused');
    // And it is still good for the one that was asked.
    await dialsBack(trio, stage.identity, token);
    expect((await refusalOf(dialsBack(trio, stage.identity, token))).code).toBe('dial_refused');
    expect(trio.leader.audits().filter(({ kind }) => kind === 'relay_refused')).toHaveLength(3);
    trio.leader.host.handle({ type: 'cancel', operation: 1 });
  });

  it('opens nothing by itself: the peer that was dialled back speaks, the one that dialled serves', async () => {
    const trio = await trioOf();
    const stranger = await makeIdentity();
    // The stage serves only what its grants say, also on connections that it dialled.
    const error = await refusalOf(trio.open([await refusing()], { grant: makeToken() }));
    expect(error.message).toContain('no such grant');
    expect(trio.stage.audits().at(-1)).toMatchObject({ kind: 'grant_refused' });
    // And dials nobody who is no member.
    trio.stage.host.handle({
      type: 'dial-back',
      order: {
        peer: stranger.nodeId,
        peerName: 'a stranger',
        token: makeToken(),
        route: 'reverse',
        addresses: [trio.leader.address],
      },
    });
    await trio.stage.event('log', ({ message }) => message.includes('no member'));
  });
});

describe('members that are removed', () => {
  it.each(['reverse', 'relay'] as const)(
    'lose their %s tunnels, whoever hears of it first',
    async (route) => {
      for (const where of [
        'leader',
        'stage',
        ...(route === 'relay' ? (['controller'] as const) : []),
      ] as const) {
        const trio = await trioOf({ routes: [route] });
        const link = await trio.open([await refusing()]);
        const socket = await echoThrough(link.port, 'before');
        expect((await trio.beat(link.operation)).path).toBe(route);
        const removed = where === 'leader' ? trio.stage : trio.leader;
        const left = [trio.controller, trio.leader, trio.stage]
          .filter((node) => node !== removed && node !== trio[where])
          .map(({ identity }) => ({
            nodeId: identity.nodeId,
            role: identity === trio.controller.identity ? ('controller' as const) : ('worker' as const),
            name: 'left',
          }));
        trio[where].host.handle({ type: 'members', members: left });
        await within(hasClosed(socket), 3_000, `the end of the stream when the ${where} hears of it`);
        await until(() => trio.engine.sockets.size === 0, 'the end at the engine');
      }
    },
  );
});
