import { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { watchPulse, type PulseMonitorOptions } from './pulse.ts';

/** A line whose far end answers at once, or not at all. */
class Line extends Duplex {
  answering = true;
  sent = 0;
  override _read(): void {
    // Pushed by _write.
  }
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.sent += 1;
    if (this.answering) this.push(chunk);
    done();
  }
}

let now = 0;
const refusal = new Error('refused');

function watch(first: Line, overrides: Partial<PulseMonitorOptions> = {}) {
  const lost: unknown[] = [];
  const monitor = watchPulse(first, {
    pulseMs: 100,
    pulseLostMs: 500,
    open: () => Promise.reject(new Error('unreachable')),
    onLost: (reason) => void lost.push(reason),
    onAnswer: () => undefined,
    isRefusal: (error) => error === refusal,
    now: () => now,
    ...overrides,
  });
  return { monitor, lost };
}

/** Lets the clock and the timers go on together, as they do. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 10) {
    now += 10;
    await vi.advanceTimersByTimeAsync(10);
  }
}

beforeEach(() => {
  now = 0;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('watchPulse', () => {
  it('sends a byte every pulse and is content with echoes', async () => {
    const line = new Line();
    const { monitor, lost } = watch(line);
    await pass(5_000);
    expect(line.sent).toBe(51);
    expect(lost).toEqual([]);
    expect(monitor.rttMs).toBeLessThanOrEqual(10);
    monitor.stop();
    expect(line.destroyed).toBe(true);
  });

  it('counts a peer as lost after the silence that is allowed, once', async () => {
    const line = new Line();
    const { lost } = watch(line);
    await pass(1_000);
    line.answering = false;
    await pass(400);
    expect(lost).toEqual([]);
    await pass(200);
    expect(lost).toEqual([null]);
    await pass(2_000);
    expect(lost).toHaveLength(1);
  });

  it('does not take its own standstill for the silence of the peer', async () => {
    const line = new Line();
    const { monitor, lost } = watch(line);
    await pass(1_000);
    line.answering = false;
    await pass(200);
    // The process was stopped for a minute; when it runs again the answers are still unread.
    now += 60_000;
    await pass(100);
    expect(lost).toEqual([]);
    line.answering = true;
    await pass(1_000);
    expect(lost).toEqual([]);
    monitor.stop();
  });

  it('opens another line when one breaks, and forgives it when that one answers', async () => {
    const first = new Line();
    const second = new Line();
    let attempts = 0;
    const { monitor, lost } = watch(first, {
      open() {
        attempts += 1;
        return attempts < 3 ? Promise.reject(new Error('not yet')) : Promise.resolve(second);
      },
    });
    await pass(300);
    first.destroy(new Error('reset'));
    await pass(2_000);
    expect(attempts).toBe(3);
    expect(second.sent).toBeGreaterThan(10);
    expect(lost).toEqual([]);
    monitor.stop();
  });

  it('gives up on a broken line when the time is over, and at once when it is refused', async () => {
    const first = new Line();
    const broken = watch(first);
    first.destroy();
    await pass(700);
    expect(broken.lost).toEqual([null]);

    const other = new Line();
    const refused = watch(other, { open: () => Promise.reject(refusal) });
    other.destroy();
    await pass(50);
    expect(refused.lost).toEqual([refusal]);
  });

  it('says nothing after it was stopped', async () => {
    const line = new Line();
    const { monitor, lost } = watch(line);
    monitor.stop();
    await pass(2_000);
    expect(lost).toEqual([]);
  });
});
