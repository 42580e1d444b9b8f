import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { controllerFrame, type ControllerFrame } from '#shared/protocol/session.ts';
import type { PeerSession } from '../../nodejs/transport/transport.ts';
import { bootId, nodeId, telemetry } from '../state/fixtures.ts';
import { exampleHello, openSessionBench, type SessionBench } from './fixtures.ts';

const node = nodeId('a');
const { hardware } = exampleHello;

let bench: SessionBench;
let events: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  bench = openSessionBench({ contest: { silenceMs: 3_000, confirmMs: 300 } });
  events = [];
  bench.runtime.onEvent((event) => {
    if (event.kind.startsWith('security-')) events.push(`${event.kind}: ${event.message}`);
  });
});
afterEach(() => {
  bench.close();
  vi.useRealTimers();
});

/** One computer's worker; frames arrive within the call. */
function worker(boot: string, host: string, address = '192.0.2.9', machine: string | null = null) {
  const frames: ControllerFrame[] = [];
  let onMessage: (text: string) => void = () => undefined;
  const onClose: Array<() => void> = [];
  let closed = false;
  const end = (): void => {
    if (closed) return;
    closed = true;
    for (const listener of onClose) listener();
  };
  const session: PeerSession = {
    peerId: node,
    remoteAddress: address,
    localAddress: null,
    dialledAddress: null,
    send: (text) => void frames.push(controllerFrame.parse(JSON.parse(text))),
    onMessage: (listener) => void (onMessage = listener),
    onClose: (listener) => void onClose.push(() => listener(null)),
    close: end,
  };
  bench.registry.accept(session);
  const send = (frame: unknown): void => {
    if (!closed) onMessage(JSON.stringify(frame));
  };
  return {
    frames,
    types: () => frames.map((frame) => frame.type),
    sent: (type: ControllerFrame['type']) => frames.filter((frame) => frame.type === type),
    isLive: () => !closed && frames.some((frame) => frame.type === 'welcome'),
    isClosed: () => closed,
    end,
    hello: () =>
      send({
        ...exampleHello,
        bootId: bootId(boot),
        machine,
        hardware: { ...hardware, os: { ...hardware.os, hostname: host } },
      }),
    beat: (seq = 1) => send({ type: 'heartbeat', seq, telemetry, problems: [] }),
    goodbye: () => send({ type: 'goodbye', reason: 'stopped' }),
  };
}

function greeted(...args: Parameters<typeof worker>) {
  const one = worker(...args);
  one.hello();
  return one;
}

describe('a restart', () => {
  test('is welcomed at once when the old session has closed or closes now', () => {
    const old = greeted('1', 'desk');
    const next = greeted('2', 'desk');
    expect(next.types()).toEqual([]);
    old.end();
    expect(next.types()[0]).toBe('welcome');
    expect(events).toEqual([]);
  });

  test('is welcomed at once when the old one says goodbye', () => {
    const old = greeted('1', 'desk');
    const next = greeted('2', 'desk');
    old.goodbye();
    expect(next.isLive()).toBe(true);
    expect(old.isClosed()).toBe(true);
    expect(events).toEqual([]);
  });

  test('replaces a session that is silent', () => {
    const old = greeted('1', 'desk');
    const next = greeted('2', 'desk');
    vi.advanceTimersByTime(3_000);
    expect(old.isClosed()).toBe(true);
    expect(next.isLive()).toBe(true);
    expect(bench.runtime.state.nodes.get(node)?.durable.bootId).toBe(bootId('2'));
    expect(events).toEqual([]);
  });

  test('loses nothing that came while it waited', () => {
    const old = greeted('1', 'desk');
    const next = greeted('2', 'desk');
    next.beat(7);
    expect(next.types()).toEqual([]);
    old.end();
    expect(next.sent('ack')).toEqual([{ type: 'ack', seq: 7, at: expect.any(Number) }]);
  });

  test('the same run of a program replaces its own session without a contest', () => {
    const first = greeted('1', 'desk');
    const second = greeted('1', 'desk');
    expect(first.isClosed()).toBe(true);
    expect(second.isLive()).toBe(true);
  });
});

describe('a copied identity', () => {
  test('is refused, both are named on both, and the first stays', () => {
    const first = greeted('1', 'desk', '192.0.2.1');
    const copy = greeted('2', 'attic', '192.0.2.2');
    first.beat();
    vi.advanceTimersByTime(300);
    expect(first.isLive()).toBe(true);
    expect(copy.isClosed()).toBe(true);
    const sentence =
      /alpha \(host desk, 192\.0\.2\.1\) and alpha \(host attic, 192\.0\.2\.2\).*covey identity new/;
    const error = { code: 'identity_in_use', message: expect.stringMatching(sentence) as string };
    expect(copy.frames).toEqual([{ type: 'refused', error }]);
    expect(first.sent('notice')).toEqual([{ type: 'notice', error }]);
    expect(events).toEqual([expect.stringMatching(sentence)]);
  });

  test('stands in the event list once an hour, however often it tries', () => {
    const first = greeted('1', 'desk');
    const attempt = (boot: string): void => {
      greeted(boot, 'attic', '192.0.2.2');
      first.beat();
      vi.advanceTimersByTime(300);
    };
    attempt('2');
    attempt('3');
    attempt('4');
    expect(events).toHaveLength(1);
    vi.advanceTimersByTime(3_600_000);
    attempt('2');
    expect(events).toHaveLength(2);
  });

  test('that floods while it waits is refused', () => {
    greeted('1', 'desk');
    const copy = greeted('2', 'attic');
    for (let seq = 0; seq < 20; seq += 1) copy.beat(seq);
    expect(copy.types()).toEqual(['refused']);
  });
});

describe('another installation of the system', () => {
  test('is told and noted, and the node goes on', () => {
    greeted('1', 'desk', '192.0.2.1', '1'.repeat(64)).goodbye();
    const moved = greeted('2', 'attic', '192.0.2.2', '2'.repeat(64));
    expect(moved.isLive()).toBe(true);
    expect(moved.sent('notice')).toEqual([
      {
        type: 'notice',
        error: { code: 'identity_in_use', message: expect.stringMatching(/attic.*host desk/) as string },
      },
    ]);
    expect(events).toEqual([expect.stringMatching(/^security-identity-moved/)]);
  });

  test('is not suspected where nobody knows the machine', () => {
    greeted('1', 'desk', '192.0.2.1', '1'.repeat(64)).goodbye();
    greeted('2', 'desk', '192.0.2.1', null).goodbye();
    greeted('3', 'desk', '192.0.2.1', '1'.repeat(64));
    expect(events).toEqual([]);
  });
});

test('never do two sessions of one node live, and the one that does is the one that is asked', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('hello' as const), boot: fc.constantFrom('1', '2', '3') }),
    fc.record({ kind: fc.constantFrom('beat' as const, 'end' as const, 'goodbye' as const), at: fc.nat(20) }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1, 299, 300, 2_700, 3_000) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const workers: ReturnType<typeof worker>[] = [];
      for (const one of steps) {
        if (one.kind === 'hello') workers.push(greeted(one.boot, `h${one.boot}`));
        else if (one.kind === 'wait') vi.advanceTimersByTime(one.ms);
        else workers[one.at % Math.max(1, workers.length)]?.[one.kind]();
        const live = workers.filter((candidate) => candidate.isLive());
        expect(live.length).toBeLessThanOrEqual(1);
        expect(bench.runtime.state.nodes.get(node)?.live.session !== null).toBe(live.length === 1);
      }
      // Whoever is left waiting gets an answer.
      vi.advanceTimersByTime(60_000);
      for (const one of workers) expect(one.isClosed() || one.isLive()).toBe(true);
      for (const one of workers) one.end();
    }),
    { numRuns: 300 },
  );
});
