import { describe, expect, it } from 'vitest';
import { createConnectionGate } from './connection-gate.ts';

const limits = { unknownPeers: 10, burst: 4, perS: 2 };

describe('createConnectionGate', () => {
  it('stops an address that knocks on and on, and lets it come back slowly', () => {
    let now = 0;
    const gate = createConnectionGate(limits, () => now);
    const knock = (): boolean => {
      const pass = gate.enter('192.0.2.1');
      pass?.closed();
      return pass !== null;
    };
    expect([knock(), knock(), knock(), knock(), knock()]).toEqual([true, true, true, true, false]);
    now = 500;
    expect([knock(), knock()]).toEqual([true, false]);
    now = 60_000;
    expect([knock(), knock(), knock(), knock(), knock()]).toEqual([true, true, true, true, false]);
  });

  it('takes nothing from an address for connections of members', () => {
    const gate = createConnectionGate(limits, () => 0);
    for (let index = 0; index < 100; index += 1) {
      const pass = gate.enter('192.0.2.1');
      expect(pass).not.toBeNull();
      pass?.authenticated();
      pass?.closed();
    }
  });

  it('bounds strangers over all addresses, while members do not count', () => {
    const gate = createConnectionGate(limits, () => 0);
    const passes = Array.from({ length: 10 }, (_, index) => gate.enter(`192.0.2.${index}`));
    expect(passes.every((pass) => pass !== null)).toBe(true);
    expect(gate.enter('198.51.100.1')).toBeNull();
    passes[0]?.authenticated();
    expect(gate.enter('198.51.100.1')).not.toBeNull();
    expect(gate.enter('198.51.100.2')).toBeNull();
    passes[1]?.closed();
    passes[1]?.closed();
    expect(gate.enter('198.51.100.2')).not.toBeNull();
    expect(gate.enter('198.51.100.3')).toBeNull();
  });

  it('treats the addresses of one IPv6 network as one', () => {
    const gate = createConnectionGate(limits, () => 0);
    for (const address of ['2001:db8::1', '2001:db8:0:0:5::2', '2001:db8:0:0:a:b:c:d', '2001:db8::9%eth0']) {
      expect(gate.enter(address)).not.toBeNull();
    }
    expect(gate.enter('2001:db8::77')).toBeNull();
    expect(gate.enter('2001:db8:0:1::1')).not.toBeNull();
    expect(gate.enter('::1')).not.toBeNull();
  });

  it('forgets old addresses rather than grow without end', () => {
    let now = 0;
    const gate = createConnectionGate({ ...limits, unknownPeers: Infinity }, () => now);
    for (let index = 0; index < 50_000; index += 1) {
      now += 1;
      gate.enter(`10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`)?.closed();
    }
    expect(gate.enter('10.0.0.0')).not.toBeNull();
  });
});
