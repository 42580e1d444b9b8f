import { afterEach, describe, expect, it, vi } from 'vitest';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { workerFrame, type HelloFrame, type WorkerFrame } from '#shared/protocol/session.ts';
import type { PeerSession } from '../../src-main/nodejs/transport/transport.ts';
import { createSessionPair } from '../../src-main/nodejs/transport/memory-session.ts';
import { alwaysLent, collectingLogger } from './fixtures.ts';
import { createSessionClient, type SessionClient, type SessionFrame } from './session-client.ts';

const controllerId = 'c'.repeat(64) as NodeId;
const workerId = 'a'.repeat(64) as NodeId;
const telemetry = {
  cpuLoad: 0.5,
  ramTotalBytes: 2,
  ramAvailableBytes: 1,
  diskFreeBytes: null,
  ownRssBytes: 1,
  deviceFree: [],
  receiveBytesPerS: null,
  sendBytesPerS: null,
  celsius: null,
};
const hello: HelloFrame = {
  type: 'hello',
  protocol: 1,
  bootId: 'b'.repeat(32) as BootId,
  name: 'alpha',
  version: '0',
  at: 0,
  machine: null,
  engine: { buildId: null, reason: 'none' },
  hardware: {
    os: { platform: 'linux', arch: 'x64', release: '', hostname: '' },
    cpu: { known: false, reason: 'x' },
    ram: { known: false, reason: 'x' },
    disk: { known: false, reason: 'x' },
    gpus: { known: false, reason: 'x' },
    devices: { known: false, reason: 'x' },
  },
  addresses: [],
  telemetry,
  engines: [],
};
const welcome = {
  type: 'welcome',
  protocol: 1,
  controllerName: 'hub',
  name: 'alpha',
  heartbeatMs: 20,
  silenceMs: 200,
  leaseMs: 1_000,
  at: 0,
};

/** A scripted controller: `script` decides what a new session gets. */
function controller(script: (frame: WorkerFrame, peer: PeerSession) => void) {
  const sessions: PeerSession[] = [];
  const received: WorkerFrame[] = [];
  return {
    sessions,
    received,
    dial: async (): Promise<PeerSession> => {
      const pair = createSessionPair(controllerId, workerId);
      sessions.push(pair.atController);
      pair.atController.onMessage((text) => {
        const frame = workerFrame.parse(JSON.parse(text));
        received.push(frame);
        script(frame, pair.atController);
      });
      return { ...pair.atWorker, localAddress: '192.0.2.7' };
    },
    say(frame: unknown) {
      sessions.at(-1)?.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
    },
  };
}

const friendly = (frame: WorkerFrame, peer: PeerSession): void => {
  if (frame.type === 'hello') peer.send(JSON.stringify(welcome));
  if (frame.type === 'heartbeat') peer.send(JSON.stringify({ type: 'ack', seq: frame.seq, at: 0 }));
};

let client: SessionClient | null = null;
afterEach(async () => {
  await client?.close('test over');
  client = null;
});

function connect(dial: (signal: AbortSignal) => Promise<PeerSession>, firstMs = 5) {
  const { logger, lines } = collectingLogger();
  const seen = {
    acks: 0,
    lost: 0,
    welcomes: 0,
    refused: [] as string[],
    frames: [] as SessionFrame[],
    lines,
  };
  client = createSessionClient({
    dial,
    hello: async () => hello,
    heartbeat: () => ({ telemetry, problems: [], lend: alwaysLent().state() }),
    onWelcome: () => (seen.welcomes += 1),
    onAck: () => (seen.acks += 1),
    onFrame: (frame) => seen.frames.push(frame),
    onRefused: ({ code }) => seen.refused.push(code),
    onLost: () => (seen.lost += 1),
    logger,
    random: () => 0.5,
    delays: {
      retry: { firstMs, maxMs: Math.max(20, firstMs * 400), factor: 2, jitter: 0 },
      refused: { firstMs: 60_000, maxMs: 60_000, factor: 2, jitter: 0 },
      welcomeMs: 300,
    },
  });
  return { client, seen };
}

describe('session client', () => {
  it('says hello, keeps the heartbeat up, and passes the rest on', async () => {
    const hub = controller(friendly);
    const { client, seen } = connect(hub.dial);
    await vi.waitFor(() => expect(seen.acks).toBeGreaterThanOrEqual(3));
    expect(hub.received[0]).toEqual(hello);
    expect(client.trouble).toBeNull();
    expect(client.welcome).toMatchObject({ controllerName: 'hub' });
    const members = { type: 'members', members: [{ nodeId: workerId, name: 'beta' }] };
    hub.say(members);
    await vi.waitFor(() => expect(seen.frames).toEqual([members]));
    expect(client.send({ type: 'goodbye', reason: 'x' })).toBe(true);
    expect(hub.sessions).toHaveLength(1);
  });

  it('beats before its time when told to, and only within a session', async () => {
    const hub = controller((frame, peer) => {
      if (frame.type === 'hello') peer.send(JSON.stringify({ ...welcome, heartbeatMs: 60_000 }));
    });
    const { client, seen } = connect(hub.dial);
    client.beat();
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
    client.beat();
    await vi.waitFor(() => expect(hub.received).toHaveLength(2));
    expect(hub.received[1]).toMatchObject({ type: 'heartbeat', seq: 1, lend: { lending: true } });
  });

  it('dials again at once when the session is lost', async () => {
    const hub = controller(friendly);
    const { seen } = connect(hub.dial);
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
    hub.sessions[0]?.close();
    await vi.waitFor(() => expect(seen.welcomes).toBe(2));
    expect(seen.lost).toBe(1);
    expect(hub.received.filter((frame) => frame.type === 'hello')).toHaveLength(2);
  });

  it('drops a controller that no longer acknowledges', async () => {
    const hub = controller((frame, peer) => {
      if (frame.type === 'hello') peer.send(JSON.stringify(welcome));
    });
    const { seen } = connect(hub.dial);
    await vi.waitFor(() => expect(seen.welcomes).toBe(2), { timeout: 3_000 });
    expect(seen.lost).toBe(1);
    expect(seen.lines.join('\n')).toContain('has not answered');
  });

  it('drops a controller that never answers the hello', async () => {
    const hub = controller(() => undefined);
    const { client } = connect(hub.dial);
    await vi.waitFor(() => expect(hub.sessions.length).toBe(2), { timeout: 3_000 });
    expect(client.trouble).toMatchObject({ code: 'timeout' });
    expect(client.send({ type: 'goodbye', reason: 'x' })).toBe(false);
  });

  it('keeps dialling while nobody answers, and logs the same reason once', async () => {
    let dials = 0;
    const { client, seen } = connect(async () => {
      dials += 1;
      throw new CoveyError('controller_unreachable', 'connection refused');
    });
    await vi.waitFor(() => expect(dials).toBeGreaterThan(3));
    expect(client.trouble).toMatchObject({ code: 'controller_unreachable', message: 'connection refused' });
    expect(seen.lines.filter((line) => line.includes('connection refused'))).toHaveLength(1);
  });

  it('shows a refusal in its own words and does not press', async () => {
    const hub = controller((_frame, peer) => {
      peer.send(
        JSON.stringify({ type: 'refused', error: { code: 'node_removed', message: 'removed yesterday' } }),
      );
      peer.close();
    });
    const { client, seen } = connect(hub.dial);
    await vi.waitFor(() =>
      expect(client.trouble).toMatchObject({ code: 'node_removed', message: 'removed yesterday' }),
    );
    expect(seen.refused).toEqual(['node_removed']);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(hub.sessions).toHaveLength(1);
    expect(seen.lost).toBe(0);
  });

  it.each([
    ['{'],
    ['{"type":"assignments","generation":-1,"engines":[],"keep":[]}'],
    ['{"type":"nonsense"}'],
  ])('ends a session that sends %s', async (text) => {
    const hub = controller(friendly);
    const { seen } = connect(hub.dial);
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
    hub.say(text);
    await vi.waitFor(() => expect(seen.welcomes).toBe(2));
    expect(seen.frames).toEqual([]);
  });

  it('ignores what comes before the welcome and says goodbye at the end', async () => {
    const hub = controller((frame, peer) => {
      if (frame.type === 'hello') peer.send(JSON.stringify({ type: 'members', members: [] }));
      friendly(frame, peer);
    });
    const { client, seen } = connect(hub.dial);
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
    expect(seen.frames).toEqual([]);
    await client.close('switched off');
    await vi.waitFor(() => expect(hub.received.at(-1)).toEqual({ type: 'goodbye', reason: 'switched off' }));
    expect(hub.sessions).toHaveLength(1);
  });
});

describe('a machine that moves', () => {
  const gone = new Set(['192.0.2.7']);

  it('drops the session of an address that it has lost and dials at once', async () => {
    const hub = controller(friendly);
    const { client, seen } = connect(hub.dial, 60_000);
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
    client.moved(new Set(['192.0.2.8']));
    client.moved(new Set());
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(seen.welcomes).toBe(1);
    client.moved(gone);
    await vi.waitFor(() => expect(seen.welcomes).toBe(2));
    expect(seen.lost).toBe(1);
  });

  it('gives up an attempt from where it was, and begins the next at once', async () => {
    let dials = 0;
    const hub = controller(friendly);
    const { client, seen } = connect((signal) => {
      dials += 1;
      if (dials > 1) return hub.dial();
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      });
    }, 60_000);
    await vi.waitFor(() => expect(dials).toBe(1));
    client.moved(new Set());
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
  });

  it('cuts its pause short', async () => {
    let dials = 0;
    const { client } = connect(async () => {
      dials += 1;
      throw new CoveyError('controller_unreachable', 'nobody');
    }, 20);
    // The pauses have grown to seconds.
    await vi.waitFor(() => expect(dials).toBe(6), { timeout: 5_000 });
    client.moved(new Set());
    await vi.waitFor(() => expect(dials).toBe(7), { timeout: 400 });
  });
});

describe('a new way to the controller', () => {
  it('is tried soon also after a refusal, and never faster than the first pause', async () => {
    const hub = controller((_frame, peer) => {
      peer.send(JSON.stringify({ type: 'refused', error: { code: 'identity_in_use', message: 'two' } }));
      peer.close();
    });
    const { client, seen } = connect(hub.dial, 40);
    await vi.waitFor(() => expect(seen.refused).toEqual(['identity_in_use']));
    client.nudge();
    await vi.waitFor(() => expect(seen.refused).toHaveLength(2), { timeout: 400 });
    const startedAt = performance.now();
    const timer = setInterval(() => client.nudge(), 1);
    await vi.waitFor(() => expect(seen.refused.length).toBeGreaterThanOrEqual(6), { timeout: 2_000 });
    clearInterval(timer);
    expect(performance.now() - startedAt).toBeGreaterThan(3 * 40);
  });

  it('does not disturb a session', async () => {
    const hub = controller(friendly);
    const { client, seen } = connect(hub.dial);
    await vi.waitFor(() => expect(seen.welcomes).toBe(1));
    client.nudge();
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(hub.sessions).toHaveLength(1);
  });
});
