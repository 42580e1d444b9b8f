import { createServer, connect, type Socket } from 'node:net';
import { once } from 'node:events';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { splice } from '../splice.ts';
import { createUploadLimit } from './upload-limit.ts';

describe('an upload limit', () => {
  test('is none when there is none', () => {
    const limit = createUploadLimit(() => 0, null);
    expect(limit.take(1e9)).toBe(0);
    limit.set(1_000_000);
    expect(limit.take(1_000_000)).toBe(1_000);
    limit.set(null);
    expect(limit.take(1e9)).toBe(0);
  });

  test('holds over any time, however many streams share it', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 100_000, max: 1e9 }),
        fc.array(fc.integer({ min: 1, max: 65_536 }), { minLength: 2, maxLength: 200 }),
        (rate, reads) => {
          let now = 0;
          const limit = createUploadLimit(() => now, rate);
          let sent = 0;
          for (const bytes of reads) {
            const waitMs = limit.take(bytes);
            sent += bytes;
            now += waitMs;
          }
          // Each read waited for itself, so at the end no more was sent than the time allows and the last read.
          expect(sent).toBeLessThanOrEqual((now / 1_000) * rate + rate * 0.25 + 1);
        },
      ),
    );
  });
});

describe('a spliced stream', () => {
  const open: { destroy(): void }[] = [];
  afterEach(() => open.splice(0).forEach((one) => one.destroy()));

  /** Two ends of one loopback connection. */
  async function pair(): Promise<[Socket, Socket]> {
    const server = createServer({ allowHalfOpen: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const [accepted] = (await once(server, 'connection')) as [Socket];
    server.close();
    open.push(client, accepted);
    return [client, accepted];
  }

  test('is kept to the rate one way, loses nothing, and is free the other way', async () => {
    const [source, near] = await pair();
    const [far, sink] = await pair();
    const limit = createUploadLimit(() => performance.now(), 2_000_000);
    splice(near, far, { paceMs: (from, bytes) => (from === 'near' ? limit.take(bytes) : 0) });
    let received = 0;
    sink.on('data', (chunk: Buffer) => (received += chunk.length));
    let back = 0;
    source.on('data', (chunk: Buffer) => (back += chunk.length));
    const startedAt = performance.now();
    source.end(Buffer.alloc(1_000_000));
    sink.write(Buffer.alloc(4_000_000));
    await once(sink, 'end');
    const tookMs = performance.now() - startedAt;
    expect(received).toBe(1_000_000);
    expect(back).toBe(4_000_000);
    expect(tookMs).toBeGreaterThan(350);
    expect(tookMs).toBeLessThan(3_000);
  });
});
