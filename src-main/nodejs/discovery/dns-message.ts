/**
 * Reads the records of a multicast DNS response (RFC 1035 section 4, RFC 6762 section 18). Everything here comes
 * from strangers, so it is strict, does bounded work and never throws: what is not right in every byte is null.
 */
export const dnsLimits = {
  /** Largest mDNS message (RFC 6762, 17). */
  messageBytes: 9_000,
  records: 64,
  /** Strings in one TXT record, and their bytes together (RFC 6763, 6.2). */
  textStrings: 32,
  textBytes: 1_300,
} as const;

/** Names are lower case, without the last dot; a byte is a character (Latin-1), so they compare exactly. */
export type DnsRecord = { readonly name: string; readonly ttlS: number } & (
  | { readonly type: 'PTR'; readonly target: string }
  | { readonly type: 'SRV'; readonly target: string; readonly port: number }
  | { readonly type: 'TXT'; readonly strings: readonly Uint8Array[] }
  | { readonly type: 'A' | 'AAAA'; readonly address: string }
);

const typeNames: Readonly<Record<number, DnsRecord['type']>> = {
  1: 'A',
  12: 'PTR',
  16: 'TXT',
  28: 'AAAA',
  33: 'SRV',
};
const headerBytes = 12;
const classMask = 0x7fff; // The top bit is "cache flush" in records and "unicast answer" in questions.
const internetClass = 1;

/** What the first bytes say, without reading any name; null when it is no standard query or response. */
export function readHeader(
  packet: Uint8Array,
): { readonly isResponse: boolean; readonly questions: number; readonly records: number } | null {
  if (packet.length < headerBytes || packet.length > dnsLimits.messageBytes) return null;
  const flags = word(packet, 2);
  if ((flags & 0x780f) !== 0) return null; // Opcode and response code must be zero (RFC 6762, 18.3 and 18.11).
  return {
    isResponse: (flags & 0x8000) !== 0,
    questions: word(packet, 4),
    records: word(packet, 6) + word(packet, 8) + word(packet, 10),
  };
}

/** The records of kinds that matter here, of all sections in order; null when any part is malformed or too much. */
export function readRecords(packet: Uint8Array): DnsRecord[] | null {
  const header = readHeader(packet);
  if (!header?.isResponse || header.questions !== 0 || header.records > dnsLimits.records) return null;
  const found: DnsRecord[] = [];
  let at = headerBytes;
  for (let index = 0; index < header.records; index++) {
    const name = readName(packet, at);
    if (!name || name.end + 10 > packet.length) return null;
    const type = typeNames[word(packet, name.end)];
    const isInternet = (word(packet, name.end + 2) & classMask) === internetClass;
    const ttlS = word(packet, name.end + 4) * 0x10000 + word(packet, name.end + 6);
    const start = name.end + 10;
    const end = start + word(packet, name.end + 8);
    if (end > packet.length) return null;
    at = end;
    if (type === undefined || !isInternet) continue;
    const data = readData(packet, type, start, end);
    if (!data) return null;
    found.push({ name: name.text, ttlS, ...data });
  }
  return found;
}

type Data = DnsRecord extends infer One ? (One extends unknown ? Omit<One, 'name' | 'ttlS'> : never) : never;

function readData(packet: Uint8Array, type: DnsRecord['type'], start: number, end: number): Data | null {
  switch (type) {
    case 'A':
      return end - start === 4 ? { type, address: packet.subarray(start, end).join('.') } : null;
    case 'AAAA':
      return end - start === 16 ? { type, address: formatIpv6(packet, start) } : null;
    case 'PTR': {
      const target = readName(packet, start);
      return target?.end === end ? { type, target: target.text } : null;
    }
    case 'SRV': {
      if (end - start < 7) return null;
      const target = readName(packet, start + 6);
      return target?.end === end ? { type, target: target.text, port: word(packet, start + 4) } : null;
    }
    case 'TXT':
      return readText(packet, start, end);
  }
}

function readText(packet: Uint8Array, start: number, end: number): Data | null {
  if (end - start > dnsLimits.textBytes) return null;
  const strings: Uint8Array[] = [];
  for (let at = start; at < end;) {
    const next = at + 1 + byte(packet, at);
    if (next > end || strings.length === dnsLimits.textStrings) return null;
    strings.push(packet.subarray(at + 1, next));
    at = next;
  }
  return { type: 'TXT', strings };
}

/**
 * A name, following compression pointers. They must lead backwards, each further than the one before, so that
 * reading ends; a name has at most 255 bytes (RFC 1035, 2.3.4).
 */
function readName(packet: Uint8Array, start: number): { readonly text: string; readonly end: number } | null {
  const labels: string[] = [];
  let bytes = 1;
  let at = start;
  let lowest = start;
  let end = -1;
  for (;;) {
    if (at >= packet.length) return null;
    const length = byte(packet, at);
    if (length === 0) {
      return { text: labels.join('.').toLowerCase(), end: end === -1 ? at + 1 : end };
    }
    if (length < 0x40) {
      bytes += length + 1;
      if (bytes > 255 || at + 1 + length > packet.length) return null;
      labels.push(String.fromCharCode(...packet.subarray(at + 1, at + 1 + length)));
      at += 1 + length;
    } else if (length >= 0xc0) {
      if (at + 2 > packet.length) return null;
      if (end === -1) end = at + 2;
      const target = word(packet, at) & 0x3fff;
      if (target >= lowest) return null;
      lowest = target;
      at = target;
    } else {
      return null;
    }
  }
}

/** RFC 5952: lower case, the longest run of zero groups (of two or more) as `::`. */
function formatIpv6(packet: Uint8Array, start: number): string {
  const groups = Array.from({ length: 8 }, (_none, index) => word(packet, start + index * 2).toString(16));
  let best = { at: 0, length: 1 };
  for (let at = 0; at < 8; at++) {
    let length = 0;
    while (groups[at + length] === '0') length++;
    if (length > best.length) best = { at, length };
  }
  if (best.length === 1) return groups.join(':');
  return `${groups.slice(0, best.at).join(':')}::${groups.slice(best.at + best.length).join(':')}`;
}

function byte(packet: Uint8Array, at: number): number {
  return packet[at] ?? 0;
}

function word(packet: Uint8Array, at: number): number {
  return byte(packet, at) * 0x100 + byte(packet, at + 1);
}
