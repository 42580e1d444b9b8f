import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { pairCheckSchema } from '#shared/api/self.ts';
import type { LinkObservation } from '#shared/domain/engine.ts';
import type { PathProbe } from '#shared/domain/network.ts';
import { CoveyError } from '#shared/errors.ts';
import { engineId, type NodeId } from '#shared/lib/ids.ts';
import {
  bootId,
  connected,
  deployment,
  deploymentId,
  joined,
  nodeId,
  observation,
  replica,
} from '../state/fixtures.ts';
import { directProbe, scriptedSessions, stateOnly } from './fixtures.ts';
import { createLinks } from './links.ts';

const [a, b, c] = [nodeId('a'), nodeId('b'), nodeId('c')];
const never = new AbortController().signal;
const hour = 3_600_000;

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

const link: LinkObservation = {
  stageEngineId: engineId(deploymentId, 1, 1),
  path: 'direct',
  connected: true,
  sentBytes: 1,
  receivedBytes: 1,
  idleMs: 0,
  lastSender: 'stage',
  rttMs: 0.3,
  bytesPerS: 5e6,
};

function setUp(probe: (from: NodeId, to: NodeId) => PathProbe | Promise<PathProbe> = () => directProbe) {
  const runtime = stateOnly(joined('a', 'anna'), joined('b', 'ben'), connected('a'), connected('b'));
  const asked: string[] = [];
  const expected: string[] = [];
  let requestsRunning = 0;
  const links = createLinks({
    runtime,
    sessions: scriptedSessions((from, method, params) => {
      const { peer, addresses, bytes } = params as { peer: NodeId; addresses: unknown[]; bytes: number };
      asked.push(`${method} ${from[0]}>${peer[0]} ${addresses.length} ${bytes}`);
      return probe(from, peer);
    }),
    transport: {
      probe: async ({ peer }) => {
        asked.push(`own ${peer[0]}`);
        return probe(c, peer);
      },
    },
    expectProbe: (from, to, ttlMs) => expected.push(`${from[0]}>${to[0]} ${ttlMs > 10_000}`),
    self: { nodeId: c, name: 'hall' },
    clock: { now: Date.now },
    requestsRunning: () => requestsRunning,
  });
  return { runtime, links, asked, expected, setRequests: (count: number) => void (requestsRunning = count) };
}

describe('links', () => {
  it('measures one direction by asking its first node, and lets the path be found', async () => {
    const { links, asked, expected } = setUp();
    const check = await links.measure([a, b], 8_000, never);
    expect(pairCheckSchema.parse(check)).toEqual({
      ...{ from: a, fromName: 'anna', to: b, toName: 'ben', path: 'direct', rttMs: 0.4, bytesPerS: 1e8 },
      ...{ measuredAt: 1_000_000, attempts: [], error: null },
    });
    expect(asked).toEqual(['network.probe a>b 1 8000']);
    expect(expected).toEqual(['a>b true']);
    expect(links.list()).toEqual([check]);
    expect(links.latest(b, a)).toBeNull();
    await links.measure([c, b], 0, never);
    expect(asked.at(-1)).toBe('own b');
    expect(links.list().map(({ fromName }) => fromName)).toEqual(['anna', 'hall']);
  });

  it('keeps what went wrong, but not what was cut off', async () => {
    const { links } = setUp(() => {
      throw new CoveyError('stage_unreachable', 'No way to ben.');
    });
    const check = await links.measure([a, b], 0, never);
    expect(check).toMatchObject({ path: null, error: { code: 'stage_unreachable' } });
    expect(links.latest(a, b)).toEqual(check);
    await links.measure([b, a], 0, AbortSignal.abort());
    expect(links.latest(b, a)).toBeNull();
  });

  it('shows a link in use over what was measured, and tells once when its path has changed', async () => {
    const { links, runtime } = setUp();
    await links.measure([a, b], 0, never);
    const engines = (changes: Partial<LinkObservation>) => [
      observation(1, 0, { links: [{ ...link, ...changes }] }),
    ];
    runtime.dispatch(
      { type: 'deployment-created', at: 1, deployment: deployment() },
      { type: 'replica-placed', at: 1, deploymentId, replica: replica() },
      { type: 'engines-observed', at: 1, nodeId: a, engines: engines({}) },
    );
    expect(links.latest(a, b)).toMatchObject({ path: 'direct', rttMs: 0.3, bytesPerS: 1e8 });
    runtime.dispatch({
      type: 'engines-observed',
      at: 2,
      nodeId: a,
      engines: engines({ path: 'relay', rttMs: null, bytesPerS: 2e8 }),
    });
    expect(links.list()).toEqual([expect.objectContaining({ path: 'relay', rttMs: 0.4, bytesPerS: 2e8 })]);
    links.start();
    await vi.advanceTimersByTimeAsync(11_000);
    links.close();
    expect(runtime.noted).toEqual([
      expect.objectContaining({
        kind: 'network-path-changed',
        level: 'warn',
        message: 'anna reaches ben by a relay connection now, before it was direct.',
        nodeId: a,
      }),
    ]);
    runtime.dispatch({ type: 'engines-observed', at: 3, nodeId: a, engines: engines({ connected: false }) });
    expect(links.latest(a, b)).toMatchObject({ path: 'direct', rttMs: 0.4 });
  });

  it('forgets pairs of removed nodes', async () => {
    const { links, runtime } = setUp();
    await links.measure([a, b], 0, never);
    runtime.dispatch({ type: 'node-removed', at: 9, nodeId: b });
    expect(links.list()).toEqual([]);
  });
});

describe('links in the background', () => {
  it('measures each pair some seconds after both are there, one at a time, and again after six hours', async () => {
    let running = 0;
    const { links, asked, runtime } = setUp(async () => {
      running += 1;
      expect(running).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 7_000));
      running -= 1;
      return directProbe;
    });
    links.start();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(asked.map((line) => line.split(' ')[1])).toEqual(['a>b', 'b>a']);
    runtime.dispatch(joined('d', 'dora'), connected('d', { at: Date.now(), boot: 'd' }));
    await vi.advanceTimersByTimeAsync(4_000);
    expect(asked).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(6);
    await vi.advanceTimersByTimeAsync(5.9 * hour);
    expect(asked).toHaveLength(6);
    await vi.advanceTimersByTimeAsync(0.2 * hour);
    expect(asked).toHaveLength(12);
    links.close();
    await vi.advanceTimersByTimeAsync(7 * hour);
    expect(asked).toHaveLength(12);
  });

  it('waits while something loads or answers, and tries a pair that failed again after minutes', async () => {
    let works = false;
    const { links, asked, runtime, setRequests } = setUp(() => {
      if (works) return directProbe;
      throw new CoveyError('stage_unreachable', 'No way.');
    });
    setRequests(1);
    runtime.dispatch({ type: 'deployment-created', at: 1, deployment: deployment({ phase: 'loading' }) });
    links.start();
    await vi.advanceTimersByTimeAsync(60_000);
    setRequests(0);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toEqual([]);
    runtime.dispatch({ type: 'deployment-removed', at: 2, deploymentId });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(2);
    works = true;
    await vi.advanceTimersByTimeAsync(11 * 60_000);
    expect(asked).toHaveLength(4);
    expect(links.list().map(({ error }) => error)).toEqual([null, null]);
    links.close();
  });

  it('looks at nobody who is away', async () => {
    const { links, asked, runtime } = setUp();
    runtime.dispatch({ type: 'session-closed', at: 1, nodeId: b, sessionId: 1, goodbye: true });
    links.start();
    await vi.advanceTimersByTimeAsync(60_000);
    links.close();
    expect(asked).toEqual([]);
    expect(bootId('b')).toHaveLength(32);
  });
});
