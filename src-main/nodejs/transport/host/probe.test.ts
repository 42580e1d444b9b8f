import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Address } from '#shared/domain/node.ts';
import type { PathProbe } from '#shared/domain/network.ts';
import { ALPN, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { createDialer } from '../dial.ts';
import { listenLoopback, refusalOf, within } from '../fixtures.ts';
import { probeLimits } from './probe-protocol.ts';
import { startTrio, type Trio, type TrioOptions } from './trio.ts';

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

async function trioOf(options?: TrioOptions): Promise<Trio> {
  const trio = await startTrio(options);
  cleanup.push(() => trio.close());
  return trio;
}

async function probe(
  trio: Trio,
  addresses: readonly Address[],
  bytes: number,
  operation = 99,
): Promise<PathProbe> {
  const target = {
    peer: trio.stage.identity.nodeId,
    peerName: 'the laptop',
    addresses,
    timeoutMs: 8_000,
  };
  trio.leader.host.handle({ type: 'probe', operation, target, bytes });
  const { probe: result } = await trio.leader.event(
    'probed',
    (event) => event.operation === operation,
    (event) => event.type === 'operation-failed' && event.operation === operation,
  );
  return result;
}

describe('a probe', () => {
  it('measures the round trip, both directions, and each address', async () => {
    const trio = await trioOf();
    const nobody = { host: '127.0.0.1', port: 1 };
    const result = await probe(trio, [trio.stage.address, nobody], 16 * 1024 * 1024);
    expect(result.path).toBe('direct');
    expect(result.rttMs).toBeGreaterThan(0);
    expect(result.rttMs).toBeLessThan(200);
    expect(result.bytesPerS).toBeGreaterThan(1_000_000);
    expect(result.attempts).toMatchObject([
      { address: trio.stage.address, nodeId: trio.stage.identity.nodeId, problem: null },
      { address: nobody, nodeId: null, problem: 'refuses connections' },
    ]);
    // And may be made again.
    expect((await probe(trio, [trio.stage.address], 0, 100)).bytesPerS).toBeNull();
  });

  it('goes the way that works', async () => {
    const trio = await trioOf({ routes: ['reverse'] });
    expect((await probe(trio, [{ host: '127.0.0.1', port: 1 }], 1024 * 1024)).path).toBe('reverse');
  });

  it('over a slow line takes no longer than it may, and says about how fast that is', async () => {
    const trio = await trioOf();
    const bytesPerS = 400_000;
    const line = await slowLine(trio.stage.address.port, bytesPerS);
    const startedAt = performance.now();
    const result = await probe(trio, [line], 64 * 1024 * 1024);
    expect(performance.now() - startedAt).toBeLessThan(probeLimits.ms);
    expect(result.bytesPerS).toBeGreaterThan(bytesPerS / 3);
    expect(result.bytesPerS).toBeLessThan(bytesPerS * 2);
  }, 20_000);

  it('is one at a time, for its asker and for its peer', async () => {
    const trio = await trioOf();
    const first = probe(trio, [trio.stage.address], 64 * 1024 * 1024, 1);
    expect((await refusalOf(probe(trio, [trio.stage.address], 0, 2))).code).toBe('too_many_requests');
    // Another program with the same key has no more right.
    const direct = await refusalOf(open(trio).then(() => open(trio)));
    expect(direct.code).toBe('too_many_requests');
    await first;
  });

  it('ends at anything that is no probe', async () => {
    const trio = await trioOf();
    const header = Buffer.alloc(5);
    header.writeUInt8(2, 0);
    header.writeUInt32BE(0xffff_ffff, 1);
    for (const bytes of [
      Buffer.of(9),
      Buffer.of(2, 0, 0, 0, 0),
      Buffer.concat([header, Buffer.alloc(probeLimits.bytes + 1)]),
      Buffer.of(3, 0, 0, 0, 1, 1),
    ]) {
      const socket = await open(trio);
      const ended = new Promise((resolve) => socket.on('end', resolve).on('close', resolve));
      socket.on('data', () => undefined);
      socket.write(bytes);
      await within(ended, 5_000, `the end after ${bytes.subarray(0, 6).toString('hex')}`);
    }
  });
});

/** A probe's connection of the leader's, by hand. */
async function open(trio: Trio) {
  const dialer = createDialer({ identity: trio.leader.identity, spares: 0 });
  const socket = await dialer.open(
    {
      addresses: [trio.stage.address],
      nodeId: trio.stage.identity.nodeId,
      name: 'the stage',
      alpn: ALPN.tunnel,
      unreachable: 'stage_unreachable',
      preamble: { protocol: PROTOCOL_VERSION, target: 'probe' },
    },
    { timeoutMs: 3_000 },
  );
  cleanup.push(() => socket.destroy());
  return socket;
}

/** A line to `port` that lets so many bytes through in a second, each way, after what its buffers take. */
async function slowLine(port: number, bytesPerS: number): Promise<Address> {
  const tickMs = 20;
  const server = await listenLoopback((socket) => {
    const onward = connect({ port, host: '127.0.0.1', noDelay: true });
    onward.on('error', () => socket.destroy());
    for (const [from, to] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      let allowed = 0;
      from.pause();
      const timer = setInterval(() => {
        allowed = Math.min(bytesPerS / 10, allowed + (bytesPerS * tickMs) / 1_000);
        const size = Math.min(Math.floor(allowed), from.readableLength);
        const chunk = (size > 0 ? from.read(size) : from.read(0)) as Buffer | null;
        if (!chunk) return;
        allowed -= chunk.length;
        to.write(chunk);
      }, tickMs);
      from.on('close', () => {
        clearInterval(timer);
        to.destroy();
      });
    }
  });
  cleanup.push(() => server.close());
  return server.address;
}
