import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { hasClosed, makeToken, refusalOf, until } from '../fixtures.ts';
import { createRelayExchange, relayLimits, type RelayExchange, type RelayLimits } from './relay-exchange.ts';

const [alice, bob, mallory] = ['a', 'b', 'm'].map((letter) => letter.repeat(64) as NodeId) as [
  NodeId,
  NodeId,
  NodeId,
];
const accepted = Buffer.from('ok');

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

function exchangeOf(limits: Partial<RelayLimits> = {}): RelayExchange {
  const exchange = createRelayExchange({
    accepted,
    log: () => undefined,
    limits: { ...relayLimits, earlyMs: 60, ...limits },
  });
  cleanup.push(() => exchange.close());
  return exchange;
}

/** A connection as the exchange has it, and the member's end of it. */
async function connection(): Promise<{ here: TLSSocket; there: Socket; heard: () => string }> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const there = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [here] = (await once(server, 'connection')) as [Socket];
  server.close();
  let heard = '';
  there.on('data', (chunk: Buffer) => (heard += chunk.toString()));
  for (const socket of [here, there]) socket.on('error', () => undefined);
  cleanup.push(() => (here.destroy(), there.destroy()));
  // The exchange uses nothing of it but the stream.
  return { here: here as TLSSocket, there, heard: () => heard };
}

function pass(token: string, ttlMs = 5_000, between: readonly [NodeId, NodeId] = [alice, bob]) {
  return { token, between, ttlMs };
}

describe('createRelayExchange', () => {
  it('joins two that have a pass, whoever comes first, and ends both when one ends', async () => {
    const exchange = exchangeOf();
    for (const early of [true, false]) {
      const token = makeToken();
      const [a, b] = [await connection(), await connection()];
      if (!early) exchange.allow(pass(token));
      const met = exchange.meet(a.here, alice, bob, token);
      if (early) exchange.allow(pass(token));
      await Promise.all([met, exchange.meet(b.here, bob, alice, token)]);
      expect(exchange.open).toBe(1);
      a.there.write(' from a');
      b.there.write(' from b');
      await until(() => a.heard() === 'ok from b' && b.heard() === 'ok from a', 'both texts');
      a.there.end(' last');
      await hasClosed(b.there);
      expect(b.heard()).toBe('ok from a last');
      await until(() => exchange.open === 0, 'the end of the relay');
    }
  });

  it('joins nobody without a pass', async () => {
    const exchange = exchangeOf();
    const token = makeToken();
    const [a, b] = [await connection(), await connection()];
    const first = refusalOf(exchange.meet(a.here, alice, bob, token));
    // The second has no more right than the first.
    expect((await refusalOf(exchange.meet(b.here, bob, alice, token))).code).toBe('dial_refused');
    expect((await first).code).toBe('dial_refused');
    expect(exchange.open).toBe(0);
  });

  it('joins only those that the pass names', async () => {
    const exchange = exchangeOf();
    const token = makeToken();
    exchange.allow(pass(token));
    const refusal = async (from: NodeId, peer: NodeId): Promise<string> =>
      (await refusalOf(exchange.meet((await connection()).here, from, peer, token))).code;
    expect(await refusal(mallory, bob)).toBe('dial_refused');
    expect(await refusal(alice, mallory)).toBe('dial_refused');
    const [a, b] = [await connection(), await connection()];
    const met = exchange.meet(a.here, alice, bob, token);
    // Not with oneself, and not in another's place.
    expect(await refusal(alice, bob)).toBe('dial_refused');
    expect(await refusal(mallory, alice)).toBe('dial_refused');
    await Promise.all([met, exchange.meet(b.here, bob, alice, token)]);
    // Once.
    expect(await refusal(alice, bob)).toBe('dial_refused');

    // Who came before the pass is judged by it.
    const other = makeToken();
    const early = refusalOf(exchange.meet((await connection()).here, mallory, bob, other));
    exchange.allow(pass(other));
    expect((await early).code).toBe('dial_refused');
  });

  it('lets nobody wait for longer than the pass is good, or for one that has gone', async () => {
    const exchange = exchangeOf();
    const [first, second] = [makeToken(), makeToken()];
    exchange.allow(pass(first, 50));
    const a = await connection();
    expect((await refusalOf(exchange.meet(a.here, alice, bob, first))).code).toBe('timeout');
    expect((await refusalOf(exchange.meet(a.here, alice, bob, first))).code).toBe('dial_refused');

    exchange.allow(pass(second));
    const gone = refusalOf(exchange.meet(a.here, alice, bob, second));
    a.there.destroy();
    expect((await gone).code).toBe('cancelled');
    const b = await connection();
    expect((await refusalOf(exchange.meet(b.here, bob, alice, second))).code).toBe('cancelled');
  });

  it('is bounded in what is open and in what waits', async () => {
    const exchange = exchangeOf({ relays: 1, meetings: 4, earlyPerMember: 2, earlyMs: 5_000 });
    const meet = async (token: string, from: NodeId, peer: NodeId): Promise<void> =>
      exchange.meet((await connection()).here, from, peer, token);
    const one = makeToken();
    exchange.allow(pass(one));
    await Promise.all([meet(one, alice, bob), meet(one, bob, alice)]);
    const two = makeToken();
    exchange.allow(pass(two));
    const first = refusalOf(meet(two, alice, bob));
    expect((await refusalOf(meet(two, bob, alice))).code).toBe('too_many_requests');
    expect((await first).code).toBe('too_many_requests');

    const waiting = [mallory, mallory, alice, alice].map((from) => {
      const early = meet(makeToken(), from, bob);
      early.catch(() => undefined);
      return early;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await refusalOf(meet(makeToken(), mallory, bob))).code).toBe('too_many_requests');
    expect((await refusalOf(meet(makeToken(), bob, alice))).code).toBe('too_many_requests');
    expect(exchange.open).toBe(1);
    exchange.close();
    await Promise.allSettled(waiting);
  });

  it('reads one side only as fast as the other takes it', async () => {
    const exchange = exchangeOf();
    const token = makeToken();
    exchange.allow(pass(token));
    const [a, b] = [await connection(), await connection()];
    await Promise.all([exchange.meet(a.here, alice, bob, token), exchange.meet(b.here, bob, alice, token)]);
    b.there.pause();
    const chunk = Buffer.alloc(1024 * 1024);
    let blocked = false;
    for (let index = 0; index < 64 && !blocked; index += 1) {
      blocked = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(true), 500);
        a.there.write(chunk, () => (clearTimeout(timer), resolve(false)));
      });
    }
    expect(blocked).toBe(true);
    expect(b.here.writableLength).toBeLessThan(4 * chunk.length);
  });
});
