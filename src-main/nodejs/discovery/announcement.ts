import { bootIdSchema, nodeIdSchema, type BootId, type NodeId } from '#shared/lib/ids.ts';
import { readRecords, type DnsRecord } from './dns-message.ts';

/**
 * What a machine says about itself by multicast DNS (RFC 6763), service `_covey._tcp`. SRV carries the cluster
 * port, TXT the rest: `v` format, `id` node id, `boot` boot id, `role`, `name`, `ver` version, `nonce`, and `mark`
 * where the machine holds a cluster secret. An announcement is a hint: it proves nothing.
 */
export const serviceName = '_covey._tcp.local';
const metaName = '_services._dns-sd._udp.local';
const format = '1';
/** What we announce is good for this long; announced again well before. */
export const announcedTtlS = 120;
/** Nobody's announcement is believed for longer. */
const maxTtlMs = 300_000;

export const announcementLimits = {
  /** Announcements in one packet. */
  perPacket: 8,
  addresses: 16,
  /** Bytes of UTF-8; a TXT string has 255. */
  nameBytes: 200,
  versionLength: 64,
} as const;

const hex32 = /^[0-9a-f]{32}$/;
const versionPattern = /^[0-9A-Za-z.+-]{1,64}$/;
/** Printable: no control, format (direction overrides), private or unassigned characters, no line separators. */
const printable = /^[^\p{C}\p{Zl}\p{Zp}]+$/u;

export interface OwnAnnouncement {
  readonly role: 'controller' | 'worker';
  readonly nodeId: NodeId;
  readonly bootId: BootId;
  readonly name: string;
  readonly version: string;
  readonly port: number;
  readonly nonce: string;
  readonly mark: string | null;
}

export interface ReadAnnouncement extends OwnAnnouncement {
  /** IP addresses from its A and AAAA records, as announced. */
  readonly addresses: readonly string[];
  /** 0: it says goodbye. */
  readonly ttlMs: number;
}

/** A record in the form of the responder library. */
export interface OwnRecord {
  readonly name: string;
  readonly type: 'PTR' | 'SRV' | 'TXT' | 'A' | 'AAAA';
  readonly ttl: number;
  /** The record is ours alone: caches forget older ones (RFC 6762, 10.2). */
  readonly flush: boolean;
  readonly data: string | readonly Buffer[] | { readonly port: number; readonly target: string };
}

/** Unique on the network even for a copied identity: node id's first 16 digits and boot id's first 8. */
function instanceLabel(nodeId: NodeId, bootId: BootId): string {
  return `${nodeId.slice(0, 16)}${bootId.slice(0, 8)}`;
}

/**
 * The records to answer with and to announce.
 * @param addresses IP addresses in the order in which others should try them
 */
export function ownRecords(
  own: OwnAnnouncement,
  addresses: readonly string[],
): { readonly announced: OwnRecord[]; readonly answered: OwnRecord[] } {
  const label = instanceLabel(own.nodeId, own.bootId);
  const instance = `${label}.${serviceName}`;
  const host = `covey-${label}.local`;
  const text = [
    `v=${format}`,
    `id=${own.nodeId}`,
    `boot=${own.bootId}`,
    `role=${own.role}`,
    `name=${fitName(own.name)}`,
    `ver=${own.version.slice(0, announcementLimits.versionLength)}`,
    `nonce=${own.nonce}`,
    ...(own.mark === null ? [] : [`mark=${own.mark}`]),
  ];
  const record = (
    name: string,
    type: OwnRecord['type'],
    data: OwnRecord['data'],
    flush = true,
  ): OwnRecord => ({ name, type, ttl: announcedTtlS, flush, data });
  const announced = [
    record(serviceName, 'PTR', instance, false),
    record(instance, 'SRV', { port: own.port, target: host }),
    record(
      instance,
      'TXT',
      text.map((entry) => Buffer.from(entry)),
    ),
    ...addresses
      .slice(0, announcementLimits.addresses)
      .map((address) => record(host, address.includes(':') ? 'AAAA' : 'A', address)),
  ];
  return { announced, answered: [...announced, record(metaName, 'PTR', serviceName, false)] };
}

/** The name without what other machines would refuse, cut between characters. */
function fitName(name: string): string {
  let kept = '';
  for (const character of name) {
    const clean = printable.test(character) ? character : ' ';
    if (Buffer.byteLength(kept + clean) > announcementLimits.nameBytes) break;
    kept += clean;
  }
  return kept.trim() || 'unnamed';
}

/**
 * The announcements in one received packet, whole and valid ones only. Never throws, whatever the bytes: a packet
 * that is malformed, or announces nothing of ours, gives none.
 */
export function parseAnnouncement(packet: Uint8Array): ReadAnnouncement[] {
  const records = readRecords(packet);
  if (!records) return [];
  const instances = new Set<string>();
  for (const record of records) {
    if (record.type === 'PTR' && record.name === serviceName) instances.add(record.target);
    if (instances.size === announcementLimits.perPacket) break;
  }
  return [...instances].flatMap((instance) => readInstance(instance, records) ?? []);
}

function readInstance(instance: string, records: readonly DnsRecord[]): ReadAnnouncement | null {
  const ours = records.filter((record) => record.name === instance);
  const service = ours.find((record) => record.type === 'SRV');
  const text = ours.find((record) => record.type === 'TXT');
  if (service?.type !== 'SRV' || text?.type !== 'TXT' || service.port === 0) return null;
  const values = readText(text.strings);
  if (values.get('v') !== format) return null;
  const nodeId = nodeIdSchema.safeParse(values.get('id'));
  const bootId = bootIdSchema.safeParse(values.get('boot'));
  if (!nodeId.success || !bootId.success) return null;
  if (instance !== `${instanceLabel(nodeId.data, bootId.data)}.${serviceName}`) return null;
  const role = values.get('role');
  const name = values.get('name')?.trim() ?? '';
  const version = values.get('ver') ?? '';
  const nonce = values.get('nonce') ?? '';
  const mark = values.get('mark') ?? null;
  if (role !== 'controller' && role !== 'worker') return null;
  if (!printable.test(name) || Buffer.byteLength(name) > announcementLimits.nameBytes) return null;
  if (!versionPattern.test(version) || !hex32.test(nonce) || (mark !== null && !hex32.test(mark)))
    return null;
  const pointers = records.filter((record) => record.type === 'PTR' && record.target === instance);
  const ttlS = Math.min(service.ttlS, text.ttlS, ...pointers.map((record) => record.ttlS));
  const addresses = records.flatMap((record) =>
    (record.type === 'A' || record.type === 'AAAA') && record.name === service.target ? [record.address] : [],
  );
  return {
    role,
    nodeId: nodeId.data,
    bootId: bootId.data,
    name,
    version,
    port: service.port,
    nonce,
    mark,
    addresses: [...new Set(addresses)].slice(0, announcementLimits.addresses),
    ttlMs: Math.min(ttlS * 1_000, maxTtlMs),
  };
}

/** `key=value` strings; of equal keys the first counts (RFC 6763, 6.4); those that are not UTF-8 are passed over. */
function readText(strings: readonly Uint8Array[]): Map<string, string> {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  const values = new Map<string, string>();
  for (const bytes of strings) {
    let entry: string;
    try {
      entry = utf8.decode(bytes);
    } catch {
      continue;
    }
    const split = entry.indexOf('=');
    if (split <= 0) continue;
    const key = entry.slice(0, split).toLowerCase();
    if (!values.has(key)) values.set(key, entry.slice(split + 1));
  }
  return values;
}
