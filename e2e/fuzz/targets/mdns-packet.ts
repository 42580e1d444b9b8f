import type { OwnRecord } from '../../../src-main/nodejs/discovery/announcement.ts';

const types = { A: 1, PTR: 12, TXT: 16, AAAA: 28, SRV: 33 } as const;

/** A response with these records (RFC 1035, 4; no compression): a writer of our own, so that two have to agree. */
export function encodePacket(records: readonly OwnRecord[]): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(0x8400, 2);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, ...records.map(encodeRecord)]);
}

function encodeRecord(record: OwnRecord): Buffer {
  const data = encodeData(record);
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(types[record.type], 0);
  fixed.writeUInt16BE(record.flush ? 0x8001 : 1, 2);
  fixed.writeUInt32BE(record.ttl, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(record.name), fixed, data]);
}

function encodeData({ type, data }: OwnRecord): Buffer {
  if (typeof data === 'string') {
    if (type === 'A') return Buffer.from(data.split('.').map(Number));
    return type === 'AAAA' ? encodeIpv6(data) : encodeName(data);
  }
  if ('port' in data) {
    const fixed = Buffer.alloc(6);
    fixed.writeUInt16BE(data.port, 4);
    return Buffer.concat([fixed, encodeName(data.target)]);
  }
  return Buffer.concat(data.flatMap((entry) => [Buffer.from([entry.length & 0xff]), entry]));
}

function encodeName(name: string): Buffer {
  const labels = name.split('.').flatMap((label) => {
    const bytes = Buffer.from(label, 'latin1').subarray(0, 63);
    return [Buffer.from([bytes.length]), bytes];
  });
  return Buffer.concat([...labels, Buffer.from([0])]);
}

function encodeIpv6(address: string): Buffer {
  const [left = '', right = ''] = address.split('::');
  const groups = (text: string): number[] =>
    text
      .split(':')
      .filter(Boolean)
      .map((group) => parseInt(group, 16));
  const [head, tail] = [groups(left), groups(right)];
  const bytes = Buffer.alloc(16);
  [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail].forEach((group, index) =>
    bytes.writeUInt16BE(group, index * 2),
  );
  return bytes;
}
