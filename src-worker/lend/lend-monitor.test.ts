import { afterEach, describe, expect, test, vi } from 'vitest';
import type { LendRules } from '#shared/domain/lend.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import type { Sensed } from './decide.ts';
import { quiet, rulesOf } from './fixtures.ts';
import { createLendMonitor, type LendMonitor } from './lend-monitor.ts';
import { createSensors } from './sense.ts';
import { scriptedSystem } from './sensors/fixtures.ts';

let monitor: LendMonitor | null = null;
afterEach(() => {
  monitor?.close();
  vi.useRealTimers();
});

async function watching(first: LendRules, sense: () => Sensed | Promise<Sensed>) {
  let rules = first;
  let told: () => void = () => undefined;
  let changes = 0;
  const { logger, lines } = collectingLogger();
  monitor = await createLendMonitor({
    rules: { current: () => rules, onChange: (listener) => ((told = listener), () => undefined) },
    sensors: { sense: async () => sense(), close: () => undefined },
    clock: { now: Date.now },
    logger,
  });
  monitor.onChange(() => (changes += 1));
  return {
    monitor,
    lines,
    changes: () => changes,
    set(next: LendRules) {
      rules = next;
      told();
    },
  };
}

describe('the monitor', () => {
  test('has looked before it is asked, and tells a change once', async () => {
    vi.useFakeTimers();
    let seen = quiet({ idleMs: { known: true, value: 0 } });
    const { monitor: watched, changes, lines } = await watching(rulesOf({ idleMinutes: 1 }), () => seen);
    expect(watched.state().lending).toBe(false);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(changes()).toBe(0);
    seen = quiet();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(watched.state().lending).toBe(true);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(changes()).toBe(1);
    expect(lines.filter((line) => line.includes('lent again'))).toHaveLength(1);
  });

  test('looks at once when the rules change, also while it is looking', async () => {
    let release: () => void = () => undefined;
    let slow = false;
    const watch = await watching(rulesOf(), async () => {
      if (slow) await new Promise<void>((resolve) => (release = resolve));
      return quiet();
    });
    slow = true;
    watch.set(rulesOf());
    await new Promise((resolve) => setImmediate(resolve));
    slow = false;
    watch.set(rulesOf({ enabled: false }));
    release();
    await vi.waitFor(() => expect(watch.monitor.state().lending).toBe(false), 500);
    expect(watch.monitor.rules().enabled).toBe(false);
  });

  test('survives sensors that fail', async () => {
    const watch = await watching(rulesOf(), () => Promise.reject(new Error('broken')));
    expect(watch.monitor.state().lending).toBe(true);
    expect(watch.lines.some((line) => line.includes('broken'))).toBe(true);
  });

  test('does not wait for ever for its first look', async () => {
    vi.useFakeTimers();
    const starting = watching(rulesOf({ enabled: false }), () => new Promise<Sensed>(() => undefined));
    await vi.advanceTimersByTimeAsync(2_000);
    expect((await starting).monitor.state().heldBackBy.map(({ rule }) => rule)).toEqual(['switch']);
  });
});

describe('the sensors together', () => {
  test('read only what a rule asks for', async () => {
    const system = scriptedSystem({ commands: { loginctl: '' } });
    const sensors = createSensors(system);
    const nothing = await sensors.sense(rulesOf());
    expect(system.ran).toEqual([]);
    expect(nothing.idleMs).toEqual({ known: false, reason: 'no rule asks for it' });
    await sensors.sense(rulesOf({ idleMinutes: 1 }));
    expect(system.ran).toEqual(['loginctl list-sessions --no-legend --no-pager']);
  });

  test('do not ask more often than they must, and believe a sensor that fails for a moment', async () => {
    let now = 0;
    let works = true;
    const system = scriptedSystem({
      env: { DISPLAY: ':0' },
      commands: () => (works ? { xprintidle: '7' } : {}),
      now: () => now,
    });
    const sensors = createSensors(system);
    const idle = async () => (await sensors.sense(rulesOf({ idleMinutes: 1 }))).idleMs;
    expect(await idle()).toEqual({ known: true, value: 7 });
    now = 1_000;
    await idle();
    expect(system.ran).toHaveLength(1);
    works = false;
    now = 10_000;
    expect(await idle()).toEqual({ known: true, value: 7 });
    now = 20_000;
    expect(await idle()).toMatchObject({ known: false });
  });

  test('are those of a file where one is named', async () => {
    const system = scriptedSystem({
      env: { COVEY_LEND_SENSORS: '/s.json' },
      files: { '/s.json': '{"onBattery": true}' },
    });
    const sensed = await createSensors(system).sense(
      rulesOf({ giveWay: { onBattery: true }, idleMinutes: 1 }),
    );
    expect(sensed.onBattery).toEqual({ known: true, value: true });
    expect(sensed.idleMs).toMatchObject({ known: false, reason: expect.stringContaining('no idleMs') });
    expect(system.ran).toEqual([]);
  });
});
