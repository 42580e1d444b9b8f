import { describe, expect, it } from 'vitest';
import { createPacketGate, gateLimits } from './packet-gate.ts';

/** @returns how many of `count` packets, one each `everyMs`, were admitted */
function send(
  gate: ReturnType<typeof createPacketGate>,
  count: number,
  source: (n: number) => string,
  everyMs = 0,
  from = 0,
) {
  let admitted = 0;
  for (let n = 0; n < count; n++) if (gate.admit(source(n), from + n * everyMs)) admitted += 1;
  return admitted;
}

describe('the packet gate', () => {
  it('lets one source send so much, and another still be heard', () => {
    const gate = createPacketGate();
    expect(send(gate, 1_000, () => 'a')).toBe(gateLimits.source.burst);
    expect(gate.admit('b', 0)).toBe(true);
    expect(send(gate, 100, () => 'a', 0, 1_000)).toBe(gateLimits.source.perS);
  });

  it('bounds all sources together', () => {
    expect(send(createPacketGate(), 10_000, (n) => String(n % 1_000))).toBe(gateLimits.all.burst);
  });

  it('lets 200 machines that answer at once pass', () => {
    expect(send(createPacketGate(), 200, String)).toBe(200);
  });

  it('knows a flood, and forgets it when told', () => {
    const gate = createPacketGate();
    send(gate, gateLimits.floodPerS, () => 'a', 0.1);
    expect(gate.flooded).toBe(false);
    gate.admit('b', 999);
    expect(gate.flooded).toBe(true);
    gate.reset();
    expect(gate.flooded).toBe(false);
    send(gate, 20_000, () => 'a', 1);
    expect(gate.flooded).toBe(false);
  });
});
