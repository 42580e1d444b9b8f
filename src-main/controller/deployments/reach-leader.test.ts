import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { DialUpstream } from '../gateway/ports.ts';
import { createLeaderDialer } from './reach-leader.ts';

const upstream = {
  kind: 'remote',
  nodeId: 'a'.repeat(64) as NodeId,
  addresses: [{ host: '127.0.0.1', port: 1 }],
  grant: 'f'.repeat(64),
  apiKey: 'f'.repeat(64),
} as const;

describe('the way to a leader', () => {
  let directory: string;
  let server: Server;
  let now = 0;
  let dials: number;
  let streams: number;
  let connected: boolean;
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'covey-leader-'));
    server = createServer((socket) => socket.on('error', () => undefined).end('by the transport'));
    server.listen(join(directory, 'stream.sock'));
    await once(server, 'listening');
    now = 0;
    dials = 0;
    streams = 0;
    connected = true;
  });
  afterEach(() => {
    server.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const dialer = (direct: () => ReturnType<DialUpstream>): DialUpstream =>
    createLeaderDialer({
      direct: () => {
        dials += 1;
        return direct();
      },
      transport: {
        openStream: async () => {
          streams += 1;
          return { socketPath: join(directory, 'stream.sock'), path: 'reverse' };
        },
      },
      nameOf: () => 'anna',
      isConnected: () => connected,
      now: () => now,
    });
  const signal = new AbortController().signal;

  it('is direct where that works', async () => {
    const stream = new PassThrough();
    const dial = dialer(async () => stream);
    expect(await dial(upstream, signal)).toBe(stream);
    expect(streams).toBe(0);
  });

  it('is a stream of the transport where nobody answers, which is remembered for half a minute', async () => {
    const dial = dialer(async () => Promise.reject(new CoveyError('engine_unreachable', 'refused')));
    const first = await dial(upstream, signal);
    const [bytes] = (await once(first, 'data')) as [Buffer];
    expect(bytes.toString()).toBe('by the transport');
    (await dial(upstream, signal)).destroy();
    expect([dials, streams]).toEqual([1, 2]);
    now = 30_001;
    (await dial(upstream, signal)).destroy();
    expect([dials, streams]).toEqual([2, 3]);
  });

  it('leaves a refusal as it is: another way would meet the same', async () => {
    const dial = dialer(async () => Promise.reject(new CoveyError('grant_expired', 'over')));
    await expect(dial(upstream, signal)).rejects.toMatchObject({ code: 'grant_expired' });
    expect(streams).toBe(0);
  });

  it('asks nothing of a leader without a session', async () => {
    connected = false;
    const dial = dialer(async () => Promise.reject(new CoveyError('engine_unreachable', 'refused')));
    await expect(dial(upstream, signal)).rejects.toMatchObject({ code: 'engine_unreachable' });
    expect(streams).toBe(0);
  });
});
