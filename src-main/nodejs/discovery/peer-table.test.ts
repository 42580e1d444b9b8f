import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReadAnnouncement } from './announcement.ts';
import { bootIdOf, exampleAnnouncement, nodeIdOf } from './fixtures.ts';
import { createPeerTable, peerLimits, type PeerTable } from './peer-table.ts';

const lan = (address: string, name = 'eth0') => ({ address, interfaces: [name] });
const said = (changes: Partial<ReadAnnouncement> = {}): ReadAnnouncement => ({
  ...exampleAnnouncement(),
  addresses: ['10.0.0.5', 'fd00::5'],
  ttlMs: 120_000,
  ...changes,
});
const everything = (): boolean => true;
const hear = (table: PeerTable, one: ReadAnnouncement, from = lan('10.0.0.5'), now = 0): boolean =>
  table.hear(one, from, now, everything);
/** Different node ids by number. */
const numbered = (number: number): ReadAnnouncement =>
  said({ nodeId: number.toString(16).padStart(64, '0') as never });

describe('the table of peers', () => {
  it('has the source first, then what is announced, without repeats', () => {
    const table = createPeerTable();
    hear(table, said({ addresses: ['10.9.9.9', '10.0.0.5'] }));
    expect(table.list()[0]?.addresses).toEqual([
      { host: '10.0.0.5', port: 7879 },
      { host: '10.9.9.9', port: 7879 },
    ]);
  });

  it('keeps only addresses that are accepted', () => {
    const table = createPeerTable();
    table.hear(said(), lan('10.0.0.5'), 0, (address) => address !== 'fd00::5');
    expect(table.list()[0]?.addresses.map(({ host }) => host)).toEqual(['10.0.0.5']);
  });

  it('joins what is heard on several interfaces, the newest source first', () => {
    const table = createPeerTable();
    hear(table, said({ addresses: [] }));
    hear(table, said({ addresses: [] }), lan('169.254.1.1', 'usb0'));
    expect(table.list()).toMatchObject([
      { addresses: [{ host: '169.254.1.1' }, { host: '10.0.0.5' }], interfaces: ['usb0', 'eth0'] },
    ]);
  });

  it('has two runs of one identity as two', () => {
    const table = createPeerTable();
    hear(table, said());
    hear(table, said({ bootId: bootIdOf('c') }), lan('10.0.0.6'));
    expect(table.list().map((peer) => peer.bootId)).toEqual([bootIdOf('c'), bootIdOf('b')]);
  });

  it('tells changes from repeats', () => {
    const table = createPeerTable();
    expect(hear(table, said())).toBe(true);
    expect(hear(table, said(), lan('10.0.0.5'), 1_000)).toBe(false);
    expect(table.list()[0]?.seenAt).toBe(1_000);
    expect(hear(table, said({ nonce: '1'.repeat(32) }))).toBe(true);
    expect(hear(table, said({ nonce: '1'.repeat(32), port: 1 }))).toBe(true);
  });

  it('forgets when the lifetime is over, and on goodbye from where it was heard', () => {
    const table = createPeerTable();
    hear(table, said());
    expect(table.expire(119_999)).toBe(false);
    hear(table, said(), lan('10.0.0.5'), 100_000);
    expect(table.expire(219_999)).toBe(false);
    expect(hear(table, said({ ttlMs: 0 }), lan('10.0.0.66'))).toBe(false);
    expect(table.list()).toHaveLength(1);
    expect(hear(table, said({ ttlMs: 0 }))).toBe(true);
    expect(table.list()).toEqual([]);
    hear(table, said());
    expect(table.expire(120_000)).toBe(true);
    expect(table.list()).toEqual([]);
    expect(hear(table, said({ ttlMs: 0 }))).toBe(false);
  });

  it('drops the oldest beyond its size', () => {
    const table = createPeerTable();
    for (let n = 0; n < 600; n++) hear(table, numbered(n), lan(`10.0.${n % 64}.1`), n);
    const peers = table.list();
    expect(peers).toHaveLength(peerLimits.peers);
    expect(peers[0]?.nodeId).toBe(numbered(599).nodeId);
    expect(peers.at(-1)?.nodeId).toBe(numbered(88).nodeId);
  });

  it('lets one sender push out only its own', () => {
    const table = createPeerTable();
    hear(table, said({ nodeId: nodeIdOf('e') }), lan('10.0.0.1'));
    for (let n = 0; n < 5_000; n++) hear(table, numbered(n), lan('10.0.0.66'), n);
    expect(table.list()).toHaveLength(peerLimits.perSource + 1);
    expect(table.list().map((peer) => peer.nodeId)).toContain(nodeIdOf('e'));
  });

  it('stays within its bounds whatever is heard', () => {
    const heard = fc.record({
      node: fc.nat(900),
      source: fc.nat(20),
      ttlMs: fc.constantFrom(0, 1_000, 120_000),
      addresses: fc.array(fc.ipV4(), { maxLength: 16 }),
    });
    fc.assert(
      fc.property(fc.array(heard, { maxLength: 200 }), (all) => {
        const table = createPeerTable();
        all.forEach(({ node, source, ttlMs, addresses }, now) =>
          hear(table, { ...numbered(node % 5), ttlMs, addresses }, lan(`10.0.0.${source}`), now),
        );
        for (const peer of table.list()) {
          expect(peer.addresses.length).toBeGreaterThan(0);
          expect(peer.addresses.length).toBeLessThanOrEqual(16);
          expect(peer.interfaces.length).toBeLessThanOrEqual(8);
        }
      }),
    );
  });
});
