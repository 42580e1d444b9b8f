import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  announcementLimits,
  ownRecords,
  parseAnnouncement,
  serviceName,
  type OwnAnnouncement,
  type OwnRecord,
} from './announcement.ts';
import { dnsLimits } from './dns-message.ts';
import {
  bootIdOf,
  encodeAnnouncement,
  encodeQuery,
  encodeResponse,
  exampleAnnouncement,
  nodeIdOf,
} from './fixtures.ts';

const own = exampleAnnouncement({ mark: 'f'.repeat(32) });
const hex = (length: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: length, maxLength: length });

/** The announced records with one TXT entry replaced, or added, or (null) taken out. */
function withText(key: string, value: string | Buffer | null, from: OwnAnnouncement = own): OwnRecord[] {
  return ownRecords(from, ['10.0.0.1']).announced.map((record) => {
    if (record.type !== 'TXT') return record;
    const entries = (record.data as Buffer[]).filter((entry) => !entry.toString().startsWith(`${key}=`));
    const added = value === null ? [] : [Buffer.concat([Buffer.from(`${key}=`), Buffer.from(value)])];
    return { ...record, data: [...entries, ...added] };
  });
}

describe('what is announced', () => {
  it('is read back as it was, with addresses in order', () => {
    const addresses = ['10.0.0.7', '169.254.3.4', '2001:db8::7', 'fd00::1:0:0:2'];
    expect(parseAnnouncement(encodeAnnouncement(own, addresses))).toEqual([
      { ...own, addresses, ttlMs: 120_000 },
    ]);
  });

  it('whatever the name: cut to what fits, without control characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), hex(64), hex(32), (name, id, boot) => {
        const from = exampleAnnouncement({ name, nodeId: id as never, bootId: boot as never });
        const [read] = parseAnnouncement(encodeAnnouncement(from));
        expect(read?.nodeId).toBe(id);
        expect(Buffer.byteLength(read?.name ?? '')).toBeLessThanOrEqual(announcementLimits.nameBytes);
        expect(read?.name).toMatch(/^[^\p{C}]+$/u);
      }),
    );
  });

  it('says goodbye with a lifetime of zero', () => {
    const records = ownRecords(own, ['10.0.0.1']).announced.map((record) => ({ ...record, ttl: 0 }));
    expect(parseAnnouncement(encodeResponse(records))).toMatchObject([{ nodeId: own.nodeId, ttlMs: 0 }]);
  });

  it('has an instance of its own for each run, also of a copied identity', () => {
    const names = [bootIdOf('1'), bootIdOf('2')].map(
      (bootId) => ownRecords({ ...own, bootId }, []).announced[0]?.data,
    );
    expect(new Set(names).size).toBe(2);
  });
});

describe('announcements of strangers', () => {
  it('never throws and stays within its bounds, whatever the bytes', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 600 }),
      // A response's header with counts, then anything.
      fc
        .tuple(fc.nat(80), fc.uint8Array({ maxLength: 600 }))
        .map(([count, rest]) => Uint8Array.from([0, 0, 0x84, 0, 0, 0, 0, count, 0, 0, 0, 0, ...rest])),
      // A right one with some bytes changed.
      fc.array(fc.tuple(fc.nat(500), fc.nat(255)), { maxLength: 8 }).map((changes) => {
        const packet = encodeAnnouncement(own, ['10.0.0.1', 'fd00::1']);
        for (const [at, value] of changes) packet[at % packet.length] = value;
        return packet;
      }),
      // A right one cut off.
      fc.nat(500).map((length) => encodeAnnouncement(own).subarray(0, length)),
    );
    fc.assert(
      fc.property(bytes, (packet) => {
        const found = parseAnnouncement(packet);
        expect(found.length).toBeLessThanOrEqual(announcementLimits.perPacket);
        for (const one of found) {
          expect(one.addresses.length).toBeLessThanOrEqual(announcementLimits.addresses);
          expect(one.name).toMatch(/^[^\p{C}]{1,200}$/u);
          expect(one.nodeId).toMatch(/^[0-9a-f]{64}$/);
          expect(one.ttlMs).toBeLessThanOrEqual(300_000);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it.each([
    ['v', '2'],
    ['v', null],
    ['id', 'a'.repeat(63)],
    ['id', nodeIdOf('c')],
    ['id', null],
    ['boot', bootIdOf('c')],
    ['boot', 'x'],
    ['role', 'boss'],
    ['name', ''],
    ['name', 'x'.repeat(201)],
    ['name', 'a\u001b[2Jb'],
    ['name', 'a\u202eb'],
    ['name', Buffer.from([0xff, 0xfe])],
    ['ver', '1 2'],
    ['ver', 'x'.repeat(65)],
    ['nonce', null],
    ['nonce', 'g'.repeat(32)],
    ['mark', 'F'.repeat(32)],
    ['mark', ''],
  ] as const)('with %s=%s are passed over', (key, value) => {
    expect(parseAnnouncement(encodeResponse(withText(key, null === value ? null : value)))).toEqual([]);
  });

  it('need no mark and may say more than we know', () => {
    expect(parseAnnouncement(encodeResponse(withText('mark', null)))).toMatchObject([{ mark: null }]);
    expect(parseAnnouncement(encodeResponse(withText('colour', 'green')))).toHaveLength(1);
  });

  it('are bounded: addresses, text, records, packets, lifetime', () => {
    const many = Array.from({ length: 40 }, (_none, index) => `10.0.0.${index}`);
    const records = (count: number): OwnRecord[] => [
      ...ownRecords(own, []).announced,
      ...many.slice(0, count).map((address): OwnRecord => ({
        name: `covey-${own.nodeId.slice(0, 16)}${own.bootId.slice(0, 8)}.local`,
        type: 'A',
        ttl: 0x7fffffff,
        flush: true,
        data: address,
      })),
    ];
    expect(parseAnnouncement(encodeResponse(records(40)))[0]?.addresses).toHaveLength(16);
    expect(parseAnnouncement(encodeResponse([...records(40), ...records(40)]))).toEqual([]);
    const longLived = ownRecords(own, []).announced.map((record) => ({ ...record, ttl: 1_000_000 }));
    expect(parseAnnouncement(encodeResponse(longLived))[0]?.ttlMs).toBe(300_000);
    const wide = withText('x', 'y'.repeat(240)).map((record) =>
      record.type === 'TXT'
        ? {
            ...record,
            data: [...(record.data as Buffer[]), ...Array.from({ length: 6 }, () => Buffer.alloc(250, 'z'))],
          }
        : record,
    );
    expect(parseAnnouncement(encodeResponse(wide))).toEqual([]);
    expect(
      parseAnnouncement(Buffer.concat([encodeAnnouncement(own), Buffer.alloc(dnsLimits.messageBytes)])),
    ).toEqual([]);
    const crowd = [...'0123456789'].flatMap(
      (digit) => ownRecords({ ...own, nodeId: nodeIdOf(digit) }, []).announced,
    );
    expect(parseAnnouncement(encodeResponse(crowd))).toHaveLength(announcementLimits.perPacket);
  });

  it('are responses about this service only', () => {
    expect(parseAnnouncement(encodeQuery(serviceName))).toEqual([]);
    const printer = ownRecords(own, []).announced.map((record) => ({
      ...record,
      name: record.name.replace('_covey', '_ipp'),
    }));
    expect(parseAnnouncement(encodeResponse(printer))).toEqual([]);
  });

  it('compression that leads forwards or in circles ends the reading', () => {
    const looping = Buffer.from([
      0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 9, 0, 0,
    ]);
    expect(parseAnnouncement(looping)).toEqual([]);
    const label = Buffer.from([1, 97, 0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 9, 0, 0]);
    expect(parseAnnouncement(Buffer.concat([looping.subarray(0, 12), label]))).toEqual([]);
  });
});
